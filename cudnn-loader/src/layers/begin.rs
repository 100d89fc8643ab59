//! Starts the requested layers by loading their files and calling their entry points. The innermost layer starts first,
//! because a layer may call cuDNN through the layers inside it.

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use cudnn_layer_api::{ENTRY_POINT, abi};
use cudnn_probe::layers::marker;
use cudnn_probe::{exports, shown_path};

use super::host;
use super::link::Link;
use super::requests::{self, Request, Source};
use crate::dl;

/// Starts all requested layers, innermost first. Returns the outermost active layer.
pub(super) fn begin() -> Option<&'static Link> {
    let mut outermost = None;
    for Request { name, source } in requests::take().into_iter().rev() {
        let begun = match source {
            Source::Program(begin) => begin_one(&name, None, begin, outermost),
            Source::Files(files) => begin_first(&name, &files, outermost),
            Source::None(reason) => Err(reason),
        };
        match begun {
            Ok(link) => outermost = Some(link),
            Err(reason) => host::report_failure(&name, &reason),
        }
    }
    outermost
}

/// Starts the layer from the first of these files that contains it.
fn begin_first(name: &CStr, files: &[PathBuf], inner: Option<&'static Link>) -> Result<&'static Link, String> {
    let mut reasons = Vec::new();
    for path in files {
        match open(name, path).and_then(|begin| begin_one(name, Some(path), begin, inner)) {
            Ok(link) => return Ok(link),
            Err(reason) => reasons.push(format!("{}: {reason}", shown_path(path))),
        }
    }
    Err(reasons.join("; "))
}

/// Loads a layer's file.
fn open(name: &CStr, path: &Path) -> Result<abi::Begin, String> {
    // Check the exports first: ld.so would crash the process on a truncated file, and a library that is not a layer
    // must not run constructors.
    let entry_point = ENTRY_POINT.to_string_lossy();
    match exports(path, &[&entry_point]) {
        Ok(found) if found == [true] => {}
        Ok(_) => return Err(format!("it does not export {entry_point}")),
        Err(error) => return Err(error.to_string()),
    }
    let library = dl::open(path).map_err(|error| error.message)?;
    let marker = marker(&name.to_string_lossy(), path).and_then(|marker| CString::new(marker).ok());
    if marker.is_some_and(|marker| library.symbol(&marker).is_none()) {
        return Err("it has no layer of this name".into());
    }
    let begin = library.symbol(ENTRY_POINT).ok_or_else(|| format!("it does not export {entry_point}"))?;
    // SAFETY: a library that exports this name is a layer, and the symbol has this type.
    Ok(unsafe { std::mem::transmute::<*mut c_void, abi::Begin>(begin) })
}

fn begin_one(
    name: &CStr,
    path: Option<&Path>,
    begin: abi::Begin,
    inner: Option<&'static Link>,
) -> Result<&'static Link, String> {
    /// Provides space for a layer that was built for a newer interface, which may write all fields that it knows.
    #[repr(C)]
    struct LayerBuffer {
        layer: abi::Layer,
        more: [usize; 60],
    }
    // A layer that is listed twice would call itself endlessly. In a library with several layers, names distinguish
    // them.
    let has_several = path.is_some_and(|path| marker(&name.to_string_lossy(), path).is_some());
    let is_same = |link: &&Link| std::ptr::fn_addr_eq(link.begin, begin) && (!has_several || *link.name == *name);
    if std::iter::successors(inner, |link| link.inner).any(|link| is_same(&link)) {
        return Err("it is listed twice, and only the last entry is used".into());
    }
    let host = host::new(name, inner).ok_or("cuDNN is not loaded")?;
    let layer = abi::Layer { size: size_of::<abi::Layer>(), data: null_mut(), wrap: None, event: None };
    let mut buffer = LayerBuffer { layer, more: [0; 60] };
    // SAFETY: calls a layer's entry point as the header specifies. The host is never freed, and the buffer outlives the
    // call.
    let refused = unsafe { begin(host, (&raw mut buffer).cast()) };
    if refused != 0 {
        return Err(format!("cudnnLayerBegin returned {refused}"));
    }
    Ok(Box::leak(Box::new(Link::new(name.to_owned(), path.map(Path::to_owned), buffer.layer, begin, inner))))
}
