//! The corpus beside the repository, where it is there.

use std::path::{Path, PathBuf};

/// A folder of the corpus: `$MAGICBYTE_SHARED`, else `shared` beside the repository. Says so where it is missing.
pub(crate) fn dir(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("MAGICBYTE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let dir = root.join(name);
    if dir.is_dir() {
        return Some(dir);
    }
    println!("skipped: the corpus folder {name} is not there (set MAGICBYTE_SHARED)");
    None
}

/// All files with one of these endings below these folders, sorted.
pub(crate) fn files(folders: &[&str], endings: &[&str]) -> Option<Vec<PathBuf>> {
    let mut todo: Vec<PathBuf> = folders.iter().map(|folder| dir(folder)).collect::<Option<_>>()?;
    let mut found = Vec::new();
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| endings.contains(&e)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Some(found)
}
