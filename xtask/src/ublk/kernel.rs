//! A kernel that has ublk: the newest of the distribution's for virtual machines, which is that of its
//! backports where it has some. It is unpacked, not installed.

use crate::program::said;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest one.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// A kernel, and its modules that are needed, unpacked.
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) modules: Vec<PathBuf>,
}

impl Kernel {
    /// What an earlier run has left in `dir`, or what the distribution has.
    pub(super) fn provide(dir: &Path) -> Result<Kernel> {
        let unpacked = dir.join("kernel");
        if !unpacked.exists() {
            let archive = Archive::new(&dir.join("apt"))?;
            let package = archive.download()?;
            // Only what is whole has the name that the next run looks for.
            let part = dir.join("kernel.part");
            said(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&part))?;
            std::fs::rename(&part, &unpacked).context("cannot rename the unpacked kernel")?;
        }
        let image = only(&unpacked.join("boot"), "vmlinuz-")?;
        let all = only(&unpacked.join("lib/modules"), "")?.join("kernel/drivers/block");
        let module = |name: &str| plain(&all.join(format!("{name}.xz")), &dir.join(name));
        let modules = vec![module("ublk_drv.ko")?, module("nbd.ko")?];
        Ok(Kernel { image, modules })
    }
}

/// A module as `insmod` takes it.
fn plain(packed: &Path, to: &Path) -> Result<PathBuf> {
    ensure!(packed.exists(), "there is no {}", packed.display());
    let bytes = Command::new("xz").arg("-dc").arg(packed).output().context("cannot start xz")?;
    ensure!(bytes.status.success(), "xz: {}", String::from_utf8_lossy(&bytes.stderr));
    std::fs::write(to, bytes.stdout).context("cannot write a module")?;
    Ok(to.to_owned())
}

/// The entry of `dir` whose name begins so.
fn only(dir: &Path, begin: &str) -> Result<PathBuf> {
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut found = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(begin)));
    let entry = found.next().with_context(|| format!("no {begin}* in {}", dir.display()))?;
    Ok(entry.path())
}

/// The distribution's backports, known to nobody but this: the system's own lists stay as they are.
struct Archive {
    dir: PathBuf,
}

impl Archive {
    fn new(dir: &Path) -> Result<Archive> {
        let format = ["indextargets", "--format", "$(LABEL) $(REPO_URI) $(CODENAME)"];
        let known = said(Command::new("apt-get").args(format).arg("Created-By: Packages"))?;
        let debian = known.lines().find_map(|line| line.strip_prefix("Debian "));
        let debian = debian.context("apt knows no Debian archive")?;
        let (address, codename) = debian.split_once(' ').context("apt names no release")?;
        for sub in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(dir.join(sub)).context("cannot make apt's directories")?;
        }
        let line = format!("deb {address} {codename}-backports main\n");
        std::fs::write(dir.join("sources.list"), line).context("cannot write sources.list")?;
        let archive = Archive { dir: dir.to_owned() };
        said(archive.apt("apt-get").args(["-qq", "update"]))?;
        Ok(archive)
    }

    fn apt(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        let within = |name: &str| self.dir.join(name).display().to_string();
        for (option, value) in [
            ("Dir::Etc::SourceList", within("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
            ("Dir::State::Lists", within("lists")),
            ("Dir::Cache", within("cache")),
            ("APT::Sandbox::User", "root".to_owned()),
        ] {
            apt.arg("-o").arg(format!("{option}={value}"));
        }
        apt.current_dir(&self.dir);
        apt
    }

    /// The package's file.
    fn download(&self) -> Result<PathBuf> {
        let depends = said(self.apt("apt-cache").args(["depends", PACKAGE]))?;
        let name = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let name = name.with_context(|| format!("{PACKAGE} depends on nothing"))?;
        println!("  downloading {name}");
        said(self.apt("apt-get").args(["-qq", "download", name]))?;
        only(&self.dir, name)
    }
}
