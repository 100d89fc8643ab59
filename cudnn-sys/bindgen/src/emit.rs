//! Writes the parsed declarations to the files of `cudnn-sys/src/generated`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::annotations::{ItemMeta, Version};
use crate::attributes::Elements;
use crate::module::Module;
use crate::parse::{Enum, Function, Other, Parsed, type_text};
use crate::source::Source;

/// Returns the file of a module: the enums, then the items of one line, then the others, each in the order of the headers.
pub(crate) fn module(module: Module, parsed: &Parsed, source: &Source) -> Result<String, String> {
    let mut text = first_line(source);
    text.push_str("\nuse super::{item, open_enum};\n#[allow(unused_imports, reason = \"not every module uses another's types\")]\nuse super::*;\n");
    for item in &parsed.enums {
        text.push('\n');
        open_enum(&mut text, module, item);
    }
    let items: Vec<String> = parsed.others.iter().map(|other| other_item(module, other)).collect::<Result<_, _>>()?;
    let (short, long): (Vec<String>, Vec<String>) = items.into_iter().partition(|item| item.lines().count() == 1);
    if !short.is_empty() {
        text.push('\n');
    }
    text.extend(short);
    text.extend(long.into_iter().map(|item| format!("\n{item}")));
    Ok(text)
}

/// Returns the function table, a macro that passes every function of the public API to another macro.
pub(crate) fn function_table(modules: &[(Module, Parsed)], source: &Source) -> String {
    let mut text = first_line(source);
    text.push_str(include_str!("table_docs.txt"));
    text.push_str(
        "#[macro_export]\nmacro_rules! for_each_function {\n    ($($callback:tt)+) => {\n        $($callback)+! {\n",
    );
    for (module, parsed) in modules.iter().filter(|(module, _)| *module != Module::Cuda) {
        let _ = writeln!(text, "            {} {{", module.name());
        for function in &parsed.functions {
            table_row(&mut text, *module, function);
        }
        text.push_str("            }\n");
    }
    text.push_str("        }\n    };\n}\n");
    text
}

fn table_row(text: &mut String, module: Module, function: &Function) {
    let Function { name, arguments, returns, meta } = function;
    let (major, minor, patch) = meta.since.unwrap_or_default();
    let arguments: Vec<String> =
        arguments.iter().map(|(name, ty)| format!("{name}: {}", exported(&type_text(ty)))).collect();
    let returns = returns.as_ref().map_or("()".into(), |ty| exported(&type_text(ty)));
    let deprecated = deprecation(*meta).map(|release| format!("**Deprecated**{release}. ")).unwrap_or_default();
    let _ = writeln!(
        text,
        "                since({major}, {minor}, {patch}) deprecated({}) fn {name}/{}({}) -> {returns}, {:?};",
        meta.deprecated,
        variant(name),
        arguments.join(", "),
        deprecated + &link(module, name),
    );
}

/// Returns the enum variant of a function: `CudnnCreate` for `cudnnCreate`.
fn variant(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Formats a type for an exported macro, with `$crate::` before names of `cudnn-sys`.
fn exported(ty: &str) -> String {
    let (pointers, name) = ty.rsplit_once(' ').map_or(("", ty), |(pointers, name)| (pointers, name));
    let space = if pointers.is_empty() { "" } else { " " };
    let is_ours = name.starts_with("cud") || name.starts_with("library");
    format!("{pointers}{space}{}{name}", if is_ours { "$crate::" } else { "" })
}

/// Writes an enum as an invocation of `open_enum!`, which adds the documentation.
fn open_enum(text: &mut String, module: Module, item: &Enum) {
    let _ = writeln!(text, "open_enum! {{\n    {:?}, {:?};", origin(module), link(module, &item.name));
    if item.name == "cudnnStatus_t" {
        text.push_str("    #[must_use = \"the call may have failed\"]\n");
    }
    let _ = writeln!(text, "    {}: {}{} {{", item.name, item.repr, annotations(module, item.meta));
    for (name, value, meta) in &item.enumerators {
        let _ = writeln!(text, "        {name} = {value}{};", annotations(module, *meta));
    }
    text.push_str("    }\n}\n");
}

/// Returns another item as an invocation of `item!`, which adds the documentation.
fn other_item(module: Module, other: &Other) -> Result<String, String> {
    let mut item = other.item.clone();
    let code = match &mut item {
        syn::Item::Struct(item) if is_incomplete(item) => format!("opaque {};", other.name),
        syn::Item::Struct(fields) => {
            for field in &mut fields.fields {
                let doc = match &field.ident {
                    Some(name) => format!(" `{name}`, as in `{}`.", other.name),
                    None => format!(" The value of `{}`.", other.name),
                };
                field.attrs.push(syn::parse_quote!(#[doc = #doc]));
            }
            if fields.fields.iter().all(|field| has_default(&field.ty)) {
                fields.attrs.push(syn::parse_quote!(#[derive(Default)]));
            }
            code(item)
        }
        syn::Item::Type(_) | syn::Item::Const(_) => code(item),
        _ => return Err(format!("the generator does not support {}", other.name)),
    };
    let annotations = annotations(module, other.meta);
    let documentation = format!("{:?}{annotations}, {:?}", origin(module), link(module, &other.name));
    Ok(match code.trim_end() {
        code if code.contains('\n') => {
            format!("item! {{\n    {}\n    {documentation}\n}}\n", code.replace('\n', "\n    "))
        }
        code => format!("item! {{ {code} {documentation} }}\n"),
    })
}

fn code(item: syn::Item) -> String {
    prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items: vec![item] })
}

/// Returns the annotations for `open_enum!` and `item!`.
fn annotations(module: Module, meta: ItemMeta) -> String {
    if module == Module::Cuda {
        return String::new();
    }
    let deprecated = deprecation(meta).map(|release| format!(", deprecated {release:?}")).unwrap_or_default();
    format!(", since {:?}{deprecated}", dotted(meta.since.unwrap_or_default()))
}

/// Returns whether C only declares this struct.
fn is_incomplete(item: &syn::ItemStruct) -> bool {
    item.fields.iter().any(|field| field.ident.as_ref().is_some_and(|name| name == "_unused"))
}

/// Returns whether the type of a field implements `Default`. Numbers, enums, pointers, our structs, and arrays of at
/// most 32 elements do.
fn has_default(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Path(_) | syn::Type::Ptr(_) => true,
        syn::Type::Array(array) => {
            let len = match &array.len {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(len), .. }) => len.base10_parse::<usize>().ok(),
                _ => None,
            };
            len.is_some_and(|len| len <= 32) && has_default(&array.elem)
        }
        _ => false,
    }
}

/// Returns all names except functions and enumerators, for tests that compare the bindings with the C compiler.
pub(crate) fn name_table(modules: &[(Module, Parsed)], source: &Source) -> String {
    let mut text = format!("{}\nall_names! {{\n", first_line(source));
    modules.iter().for_each(|(_, parsed)| names(&mut text, parsed));
    text.push_str("}\n");
    text
}

fn names(text: &mut String, parsed: &Parsed) {
    let since = |meta: ItemMeta| {
        let (major, minor, patch) = meta.since.unwrap_or_default();
        format!("since({major}, {minor}, {patch})")
    };
    for item in &parsed.enums {
        let _ = writeln!(text, "    {} enum({});", since(item.meta), item.name);
    }
    for Other { item, name, meta } in &parsed.others {
        let since = since(*meta);
        let _ = match item {
            // An incomplete struct has no layout to compare.
            syn::Item::Struct(item) if is_incomplete(item) => continue,
            syn::Item::Struct(item) => {
                let fields = item.fields.iter().filter_map(|field| field.ident.as_ref());
                let fields: Vec<String> = fields.map(ToString::to_string).collect();
                writeln!(text, "    {since} struct({name} {});", fields.join(" "))
            }
            syn::Item::Const(_) => writeln!(text, "    {since} constant({name});"),
            _ => writeln!(text, "    {since} alias({name});"),
        };
    }
}

/// Returns the annotations of all names, one per line.
pub(crate) fn annotation_list(modules: &[(Module, Parsed)], source: &Source) -> String {
    let mut text = first_line(source);
    let mut line = |name: &str, meta: &ItemMeta| {
        let _ = writeln!(text, "{name} {meta}");
    };
    for (_, parsed) in modules {
        for item in &parsed.enums {
            line(&item.name, &item.meta);
            item.enumerators.iter().for_each(|(name, _, meta)| line(name, meta));
        }
        parsed.others.iter().for_each(|other| line(&other.name, &other.meta));
        parsed.functions.iter().for_each(|function| line(&function.name, &function.meta));
    }
    text
}

/// Returns the elements of the attributes of backend descriptors, sorted by number.
pub(crate) fn attributes(
    modules: &[(Module, Parsed)],
    elements: &BTreeMap<String, Elements>,
    source: &Source,
) -> Result<String, String> {
    let enumerators = |of: &'static str| {
        let enums = modules.iter().flat_map(|(_, parsed)| &parsed.enums).filter(move |item| item.name == of);
        enums.flat_map(|item| &item.enumerators)
    };
    let known_types: Vec<&String> = enumerators("cudnnBackendAttributeType_t").map(|(name, ..)| name).collect();
    let mut rows: Vec<(u32, &str, &Elements)> = Vec::new();
    for (name, value, _) in enumerators("cudnnBackendAttributeName_t") {
        // Several names may share a number.
        if let (Some(elements), Ok(number)) = (elements.get(name), value.parse())
            && rows.iter().all(|(known, ..)| *known != number)
        {
            if let Some(ty) = elements.types.iter().find(|ty| !known_types.contains(ty)) {
                return Err(format!(
                    "the type of {name}, {ty}, does not exist; add the attribute to cudnn-sys/bindgen/src/measured_attributes.txt"
                ));
            }
            rows.push((number, name, elements));
        }
    }
    rows.sort_unstable_by_key(|(number, ..)| *number);
    let mut text = first_line(source);
    let _ = writeln!(text, "[");
    for (_, name, Elements { types, most }) in rows {
        let types: Vec<String> = types.iter().map(|ty| format!("Type::{ty}")).collect();
        let most = most.map_or("u32::MAX".to_owned(), |most| most.to_string());
        let _ = writeln!(text, "    (Name::{name}, Elements {{ types: &[{}], most: {most} }}),", types.join(", "));
    }
    text.push_str("]\n");
    Ok(text)
}

fn first_line(source: &Source) -> String {
    format!("// Generated by `{}` from {}. Do not edit.\n", source.command, source.description)
}

fn dotted((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

/// Returns when an item was deprecated, in words. Empty if the headers do not name a release.
fn deprecation(meta: ItemMeta) -> Option<String> {
    let release = meta.deprecated_since.map(|release| format!(" since cuDNN {}", dotted(release)));
    release.or(meta.deprecated.then(String::new))
}

fn origin(module: Module) -> String {
    match module {
        Module::Cuda => "A CUDA type that cuDNN's headers use.".into(),
        _ => format!("`libcudnn_{}`", module.name()),
    }
}

/// Returns a link to NVIDIA's page.
fn link(module: Module, name: &str) -> String {
    let base = "https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api";
    let page = match module {
        Module::Cuda => return String::new(),
        // NVIDIA has no page for this sub-library.
        Module::Ext => "overview.html".into(),
        _ => format!("cudnn-{}-library.html#{}", module.name(), name.to_lowercase().replace('_', "-")),
    };
    format!("[NVIDIA's page]({base}/{page})")
}
