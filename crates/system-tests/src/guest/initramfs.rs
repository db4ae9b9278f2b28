//! The guest's initramfs: programs of this machine with the libraries that they need.

use super::Contents;
use super::kernel::Kernel;
use crate::program::said;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory of the modules: NAME.ko, and a list of names in loading order.
const MODULES: &str = "lib/guest";

/// The start of every guest's first process.
const BEGIN: &str = include_str!("begin.sh");

/// Packs the initramfs in `dir`; returns the path of the archive.
pub(super) fn make(dir: &Path, contents: &Contents, kernel: &Kernel) -> Result<PathBuf> {
    let root = dir.join("root");
    let _ = std::fs::remove_dir_all(&root);
    let put = |from: &Path, to: &Path| -> Result<()> {
        let to = root.join(to.strip_prefix("/").unwrap_or(to));
        let parent = to.parent().context("a file lies in a directory")?;
        std::fs::create_dir_all(parent).context("cannot make a directory of the guest's")?;
        std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        Ok(())
    };
    let busybox = Path::new("/bin/busybox");
    put(busybox, busybox)?;
    let mut libraries = BTreeSet::new();
    for program in contents.programs {
        put(Path::new(program), Path::new(program))?;
        libraries.extend(self::libraries(Path::new(program))?);
    }
    for (name, program) in contents.built {
        put(program, &Path::new("/usr/bin").join(name))?;
        libraries.extend(self::libraries(program)?);
    }
    for library in &libraries {
        put(Path::new(library), Path::new(library))?;
    }
    let order = kernel.unpack(contents.modules, &root.join(MODULES))?;
    std::fs::write(root.join(MODULES).join("order"), order.join("\n") + "\n")
        .context("cannot write the order of the modules")?;
    let init = root.join("init");
    let script = [BEGIN, contents.script].concat();
    std::fs::write(&init, script).context("cannot write the guest's script")?;
    std::fs::set_permissions(&init, Permissions::from_mode(0o755)).context("cannot chmod")?;
    pack(&root, &dir.join("initramfs"))
}

/// The libraries of `program`, by the paths under which its loader finds them.
fn libraries(program: &Path) -> Result<BTreeSet<String>> {
    let told = said(Command::new("ldd").arg(program))?;
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    Ok(told.lines().filter_map(path).collect())
}

fn pack(root: &Path, to: &Path) -> Result<PathBuf> {
    let file = std::fs::File::create(to).context("cannot make the initramfs")?;
    let mut names = Command::new("busybox")
        .arg("find")
        .arg(".")
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start busybox")?;
    let listed = names.stdout.take().context("its output is a pipe")?;
    let packed = Command::new("busybox")
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(root)
        .stdin(listed)
        .stdout(file)
        .stderr(Stdio::null())
        .status()
        .context("cannot start busybox")?;
    let listed = names.wait().context("cannot wait for busybox")?;
    ensure!(packed.success() && listed.success(), "busybox cannot pack the initramfs");
    Ok(to.to_owned())
}
