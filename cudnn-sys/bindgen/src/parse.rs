//! Runs bindgen on the headers of one module and sorts the output by kind.

use std::path::Path;
use std::process::Command;

use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};
use quote::ToTokens;

use crate::annotations::{Annotations, ItemMeta};
use crate::module::Module;
use crate::source::Source;

/// A C enum with the Rust name, the integer type, and the enumerators in the order of the header.
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) repr: String,
    pub(crate) meta: ItemMeta,
    pub(crate) enumerators: Vec<(String, String, ItemMeta)>,
}

/// A function of the public API.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, syn::Type)>,
    pub(crate) returns: Option<syn::Type>,
    pub(crate) meta: ItemMeta,
}

/// A struct, type alias or constant as written by bindgen, without the comment.
pub(crate) struct Other {
    pub(crate) item: syn::Item,
    pub(crate) name: String,
    pub(crate) meta: ItemMeta,
}

/// All declarations in the headers of one module.
#[derive(Default)]
pub(crate) struct Parsed {
    pub(crate) enums: Vec<Enum>,
    pub(crate) functions: Vec<Function>,
    pub(crate) others: Vec<Other>,
}

impl Parsed {
    /// Returns the names without a first release.
    pub(crate) fn undated(&self) -> impl Iterator<Item = &str> {
        let enumerators = self.enums.iter().flat_map(|item| &item.enumerators).map(|(name, _, meta)| (name, meta));
        let enums = self.enums.iter().map(|item| (&item.name, &item.meta));
        let others = self.others.iter().map(|item| (&item.name, &item.meta));
        let functions = self.functions.iter().map(|item| (&item.name, &item.meta));
        let all = enums.chain(enumerators).chain(others).chain(functions);
        all.filter(|(_, meta)| meta.since.is_none()).map(|(name, _)| name.as_str())
    }
}

pub(crate) fn parse(
    module: Module,
    source: &Source,
    annotations: &Annotations,
    scratch: &Path,
) -> Result<Parsed, String> {
    let text = run_bindgen(module, source, scratch)?;
    let file = syn::parse_file(&text).map_err(|error| format!("bindgen's output does not parse: {error}"))?;
    let mut parsed = Parsed::default();
    for item in file.items {
        sort(item, annotations, &mut parsed)?;
    }
    Ok(parsed)
}

fn run_bindgen(module: Module, source: &Source, scratch: &Path) -> Result<String, String> {
    // bindgen panics if libclang is missing, so load it first.
    clang_sys::load().map_err(|error| {
        format!(
            "cannot load libclang, which parses the headers: {error}\nhelp: install it (Debian and Ubuntu: `apt-get install \
             libclang-dev`; or `pip install libclang`), and set LIBCLANG_PATH to the directory of libclang.so"
        )
    })?;
    let headers = format!(r".*[/\\]({})(_v9)?\.h", module.headers().join("|"));
    let mut builder = bindgen::Builder::default()
        .header(scratch.join(format!("{}.h", module.name())).to_string_lossy())
        .clang_arg(format!("-I{}", scratch.join("cuda").display()))
        .clang_arg(format!("-I{}", source.cudnn_include.display()))
        .allowlist_file(headers)
        // Exclude include guards.
        .blocklist_item(r"_?CU\w*_H_?")
        .allowlist_recursively(false)
        .default_enum_style(bindgen::EnumVariation::NewType { is_bitfield: false, is_global: false })
        .use_core()
        .layout_tests(false)
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(scratch)
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(KeepAnnotations));
    if let Some(dir) = compiler_headers() {
        builder = builder.clang_arg("-isystem").clang_arg(dir);
    }
    let bindings = builder
        .generate()
        .map_err(|error| format!("bindgen failed on the headers of the module `{}`: {error}", module.name()))?;
    Ok(bindings.to_string())
}

/// Returns the directory of the C compiler's `stddef.h`, which a libclang from a wheel does not include.
fn compiler_headers() -> Option<String> {
    let output = Command::new("cc").arg("-print-file-name=include").output().ok()?;
    let dir = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&dir).is_absolute().then_some(dir)
}

#[derive(Debug)]
struct KeepAnnotations;

impl ParseCallbacks for KeepAnnotations {
    fn process_comment(&self, comment: &str) -> Option<String> {
        Some(ItemMeta::from_comment(comment).to_string())
    }

    /// Fields of a struct may have types from a different module, which bindgen does not see here. They are also plain
    /// data.
    fn blocklisted_type_implements_trait(&self, _: &str, _: DeriveTrait) -> Option<ImplementsTrait> {
        Some(ImplementsTrait::Yes)
    }
}

fn sort(item: syn::Item, annotations: &Annotations, parsed: &mut Parsed) -> Result<(), String> {
    match item {
        syn::Item::ForeignMod(block) => {
            for item in block.items {
                let syn::ForeignItem::Fn(function) = item else {
                    return Err("the headers declare a variable; the generator handles functions only".to_owned());
                };
                parsed.functions.push(function_of(function, annotations)?);
            }
        }
        syn::Item::Impl(block) => {
            let name = block.self_ty.to_token_stream().to_string();
            let target = find_enum(parsed, &name)?;
            for item in block.items {
                let syn::ImplItem::Const(constant) = item else {
                    return Err(format!("unexpected item in the impl of {name}"));
                };
                let value = enumerator_value(&constant)?;
                let enumerator = constant.ident.to_string();
                let meta = annotations.complete(take_meta(&constant.attrs), &enumerator);
                target.enumerators.push((enumerator, value, meta));
            }
        }
        syn::Item::Struct(item) if is_open_enum(&item) => {
            let meta = annotations.complete(take_meta(&item.attrs), &item.ident.to_string());
            let repr = item.fields.iter().next().map(|field| type_text(&field.ty)).unwrap_or_default();
            let target = find_enum(parsed, &item.ident.to_string())?;
            target.repr = repr;
            target.meta = meta;
        }
        syn::Item::Use(item) => sort(syn::Item::Type(renaming(&item)?), annotations, parsed)?,
        mut other => {
            let (name, attrs) = match &mut other {
                syn::Item::Struct(item) => {
                    for field in &mut item.fields {
                        field.attrs.clear();
                    }
                    (item.ident.to_string(), &mut item.attrs)
                }
                syn::Item::Type(item) => (item.ident.to_string(), &mut item.attrs),
                syn::Item::Const(item) => (item.ident.to_string(), &mut item.attrs),
                unknown => {
                    let text = unknown.to_token_stream();
                    return Err(format!("the generator does not support: {text}"));
                }
            };
            let meta = annotations.complete(take_meta(attrs), &name);
            attrs.retain(|attribute| !attribute.path().is_ident("doc"));
            parsed.others.push(Other { item: other, name, meta });
        }
    }
    Ok(())
}

/// Converts `pub use self::tag as name`, which bindgen writes for a typedef of an enum, to a type alias.
fn renaming(item: &syn::ItemUse) -> Result<syn::ItemType, String> {
    if let syn::UseTree::Path(path) = &item.tree
        && let syn::UseTree::Rename(rename) = &*path.tree
    {
        let (tag, name, attrs) = (&rename.ident, &rename.rename, &item.attrs);
        return Ok(syn::parse_quote!(#(#attrs)* pub type #name = #tag;));
    }
    Err(format!("the generator does not support: {}", item.to_token_stream()))
}

/// Returns the entry of an enum. bindgen writes a struct and an impl with constants, in either order.
fn find_enum<'a>(parsed: &'a mut Parsed, name: &str) -> Result<&'a mut Enum, String> {
    if parsed.enums.iter().all(|item| item.name != name) {
        let (name, repr) = (name.to_owned(), String::new());
        parsed.enums.push(Enum { name, repr, meta: ItemMeta::default(), enumerators: Vec::new() });
    }
    let found = parsed.enums.iter_mut().find(|item| item.name == name);
    found.ok_or_else(|| format!("the enum {name} has no entry"))
}

fn is_open_enum(item: &syn::ItemStruct) -> bool {
    item.attrs.iter().any(|attribute| attribute.to_token_stream().to_string().contains("transparent"))
}

fn enumerator_value(constant: &syn::ImplItemConst) -> Result<String, String> {
    match &constant.expr {
        syn::Expr::Call(call) if call.args.len() == 1 => Ok(call.args.to_token_stream().to_string().replace("- ", "-")),
        _ => Err(format!("the value of {} is not a number", constant.ident)),
    }
}

fn function_of(function: syn::ForeignItemFn, annotations: &Annotations) -> Result<Function, String> {
    let name = function.sig.ident.to_string();
    if function.sig.variadic.is_some() {
        return Err(format!("{name} is variadic, which the function table cannot express"));
    }
    let mut arguments = Vec::new();
    for input in function.sig.inputs {
        let syn::FnArg::Typed(argument) = input else {
            return Err(format!("{name} has a `self` argument"));
        };
        arguments.push((argument.pat.to_token_stream().to_string(), *argument.ty));
    }
    let returns = match function.sig.output {
        syn::ReturnType::Default => None,
        syn::ReturnType::Type(_, ty) => Some(*ty),
    };
    let meta = annotations.complete(take_meta(&function.attrs), &name);
    Ok(Function { name, arguments, returns, meta })
}

fn take_meta(attributes: &[syn::Attribute]) -> ItemMeta {
    let mut text = String::new();
    for attribute in attributes {
        if let syn::Meta::NameValue(meta) = &attribute.meta
            && meta.path.is_ident("doc")
        {
            text.push_str(&meta.value.to_token_stream().to_string());
        }
    }
    ItemMeta::from_marker(&text)
}

/// Formats a type in the usual style: `*mut cudnnHandle_t`, `core::ffi::c_int`.
pub(crate) fn type_text(ty: &syn::Type) -> String {
    ty.to_token_stream()
        .to_string()
        .replace(":: core :: ffi :: ", "core::ffi::")
        .replace(":: core :: option :: Option", "Option")
        .replace("* mut ", "*mut ")
        .replace("* const ", "*const ")
        .replace("[ ", "[")
        .replace(" ]", "]")
        .replace(" ;", ";")
}
