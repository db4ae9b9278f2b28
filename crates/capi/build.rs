//! Gives the shared library a name with the number of its ABI, and that name a link beside it, so that programs
//! which were linked in the tree run there.

use std::os::unix::fs::symlink;
use std::path::Path;

/// Raised when a program that was linked before could no longer run. As in the Makefile.
const SONAME: &str = "libimbrex_capi.so.0";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // target/debug/build/imbrex-capi-HASH/out
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let target = Path::new(&out).ancestors().nth(3).expect("cargo's directories are that deep");
    for dir in [target.to_owned(), target.join("deps")] {
        // It exists after the first build.
        let _ = symlink("libimbrex_capi.so", dir.join(SONAME));
    }
}
