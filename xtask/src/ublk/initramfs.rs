//! The guest's file system in memory: programs of this machine with the libraries that they need.

use super::kernel::Kernel;
use crate::program::said;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAMS: [&str; 7] = [
    "/usr/bin/fio",
    "/usr/bin/fallocate",
    "/usr/bin/setpriv",
    "/usr/sbin/blkdiscard",
    "/usr/sbin/e2fsck",
    "/usr/sbin/fstrim",
    "/usr/sbin/mkfs.ext4",
];

/// What runs there.
const SCRIPT: &str = include_str!("guest.sh");

/// Packs it, with `more` programs; the archive's path.
pub(super) fn make(dir: &Path, imbrex: &Path, more: &[&str], kernel: &Kernel) -> Result<PathBuf> {
    let root = dir.join("root");
    let _ = std::fs::remove_dir_all(&root);
    let put = |from: &Path, to: &str| -> Result<()> {
        let to = root.join(to.trim_start_matches('/'));
        let parent = to.parent().context("a file lies in a directory")?;
        std::fs::create_dir_all(parent).context("cannot make a directory of the guest's")?;
        std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        Ok(())
    };
    put(Path::new("/bin/busybox"), "/bin/busybox")?;
    put(imbrex, "/usr/bin/imbrex")?;
    let mut libraries = libraries(imbrex)?;
    for program in PROGRAMS.iter().chain(more) {
        put(Path::new(program), program)?;
        libraries.extend(self::libraries(Path::new(program))?);
    }
    for library in &libraries {
        put(Path::new(library), library)?;
    }
    for module in &kernel.modules {
        let name = module.file_name().and_then(|name| name.to_str());
        put(module, &format!("/lib/{}", name.context("a module has a name")?))?;
    }
    let init = root.join("init");
    std::fs::write(&init, SCRIPT).context("cannot write the guest's script")?;
    std::fs::set_permissions(&init, Permissions::from_mode(0o755)).context("cannot chmod")?;
    pack(&root, &dir.join("initramfs"))
}

/// What `program` loads, by the paths under which its loader finds them.
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
