//! A kernel with features that the host's kernel may lack: the distribution's newest one for virtual machines, from its
//! backports if it has any. It is unpacked, not installed.

use crate::program::said;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest kernel.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// A kernel and its modules, unpacked.
pub(crate) struct Kernel {
    pub(super) image: PathBuf,
    /// The files of the modules, by name.
    modules: BTreeMap<String, PathBuf>,
    /// The names of modules that are built into the image.
    builtin: Vec<String>,
}

impl Kernel {
    /// The kernel of an earlier run in `dir`, or the distribution's.
    pub(super) fn provide(dir: &Path) -> Result<Kernel> {
        let unpacked = dir.join("kernel");
        if !unpacked.exists() {
            let archive = Archive::new(&dir.join("apt"))?;
            let package = archive.download()?;
            // Only a complete kernel gets the name that the next run looks for.
            let part = dir.join("kernel.part");
            said(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&part))?;
            std::fs::rename(&part, &unpacked).context("cannot rename the unpacked kernel")?;
        }
        let image = only(&unpacked.join("boot"), "vmlinuz-")?;
        let all = only(&unpacked.join("lib/modules"), "")?;
        let builtin = std::fs::read_to_string(all.join("modules.builtin"));
        let builtin = builtin.context("cannot read modules.builtin")?;
        let builtin = builtin.lines().filter_map(|line| name(Path::new(line))).collect();
        let mut modules = BTreeMap::new();
        for entry in ignore::WalkBuilder::new(&all).standard_filters(false).build() {
            let path = entry.context("cannot walk the kernel's modules")?.into_path();
            if let Some(name) = name(&path) {
                modules.insert(name, path);
            }
        }
        Ok(Kernel { image, modules, builtin })
    }

    /// Writes these modules and their dependencies to `to` as NAME.ko, for `insmod`. Returns their names in loading order,
    /// without modules that are built into the image.
    pub(super) fn unpack(&self, wanted: &[&str], to: &Path) -> Result<Vec<String>> {
        std::fs::create_dir_all(to).context("cannot make a directory for modules")?;
        let mut order = Vec::new();
        for name in wanted {
            self.unpack_one(name, to, &mut order)?;
        }
        Ok(order)
    }

    fn unpack_one(&self, name: &str, to: &Path, order: &mut Vec<String>) -> Result<()> {
        if order.iter().chain(&self.builtin).any(|have| have == name) {
            return Ok(());
        }
        let packed = self.modules.get(name);
        let packed = packed.with_context(|| format!("the kernel has no module {name}"))?;
        let bytes = Command::new("xz").arg("-dc").arg(packed).output();
        let bytes = bytes.context("cannot start xz")?;
        ensure!(bytes.status.success(), "xz: {}", String::from_utf8_lossy(&bytes.stderr));
        for needed in needs(&bytes.stdout).with_context(|| format!("module {name}"))? {
            self.unpack_one(&needed, to, order)?;
        }
        let to = to.join(format!("{name}.ko"));
        std::fs::write(to, bytes.stdout).context("cannot write a module")?;
        order.push(name.to_owned());
        Ok(())
    }
}

/// The name of the module in a file.
fn name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".ko.xz").or_else(|| name.strip_suffix(".ko"))?;
    // The kernel calls it so, whatever its file is called.
    Some(name.replace('-', "_"))
}

/// The dependencies of a module: `depends=a,b` among strings that end in a zero byte.
fn needs(module: &[u8]) -> Result<Vec<String>> {
    const MARK: &[u8] = b"\0depends=";
    let Some(at) = module.windows(MARK.len()).position(|bytes| bytes == MARK) else {
        bail!("it does not say what it needs");
    };
    let names = module[at + MARK.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = std::str::from_utf8(names).context("it needs what has no name")?;
    let names = names.split(',').filter(|name| !name.is_empty());
    Ok(names.map(|name| name.replace('-', "_")).collect())
}

/// The entry of `dir` whose name has this prefix.
fn only(dir: &Path, begin: &str) -> Result<PathBuf> {
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut found = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(begin)));
    let entry = found.next().with_context(|| format!("no {begin}* in {}", dir.display()))?;
    Ok(entry.path())
}

/// The distribution's backports, as a package source of this module only; the system's own lists stay unchanged.
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

    /// The file of the package.
    fn download(&self) -> Result<PathBuf> {
        let depends = said(self.apt("apt-cache").args(["depends", PACKAGE]))?;
        let name = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let name = name.with_context(|| format!("{PACKAGE} depends on nothing"))?;
        println!("  downloading {name}");
        said(self.apt("apt-get").args(["-qq", "download", name]))?;
        only(&self.dir, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_what_it_needs() {
        let module = |names: &str| format!("\x7fELF\0license=GPL\0depends={names}\0intree=Y\0");
        let needs = |text: String| super::needs(text.as_bytes());
        assert_eq!(needs(module("scsi_mod,crc-t10dif")).unwrap(), ["scsi_mod", "crc_t10dif"]);
        assert!(needs(module("")).unwrap().is_empty());
        assert!(needs("\x7fELF".to_owned()).is_err());
    }

    #[test]
    fn a_module_is_called_as_the_kernel_calls_it() {
        for (path, expected) in [
            ("kernel/drivers/nvme/host/nvme-core.ko.xz", Some("nvme_core")),
            ("kernel/fs/ext4/ext4.ko", Some("ext4")),
            ("modules.order", None),
        ] {
            assert_eq!(name(Path::new(path)).as_deref(), expected, "{path}");
        }
    }
}
