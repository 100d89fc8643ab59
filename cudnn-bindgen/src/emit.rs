//! Writes what was parsed as the files of `cudnn-sys/src/generated`.

use std::fmt::Write;

use crate::facts::{ItemMeta, Version};
use crate::parse::{Enum, Function, Other, Parsed, type_text};
use crate::{Error, Module, Source};

/// The text of one module: enums, then everything else, in the headers' order.
pub(crate) fn module(module: Module, parsed: &Parsed, source: &Source) -> Result<String, Error> {
    let mut text = first_line(source);
    text.push_str("\nuse super::open_enum;\n#[allow(unused_imports, reason = \"not every module names another's types\")]\nuse super::*;\n");
    for item in &parsed.enums {
        text.push('\n');
        open_enum(&mut text, module, item);
    }
    for other in &parsed.others {
        text.push('\n');
        text.push_str(&other_item(module, other)?);
    }
    Ok(text)
}

/// The function table: one macro that hands every function of the public API to another macro.
pub(crate) fn table(functions: &[(Module, Vec<Function>)], source: &Source) -> String {
    let mut text = first_line(source);
    text.push_str(include_str!("table_docs.txt"));
    text.push_str(
        "#[macro_export]\nmacro_rules! for_each_function {\n    ($($callback:tt)+) => {\n        $($callback)+! {\n",
    );
    for (module, functions) in functions.iter().filter(|(module, _)| *module != Module::Cuda) {
        let _ = writeln!(text, "            {} {{", module.name());
        for function in functions {
            table_row(&mut text, *module, function);
        }
        text.push_str("            }\n");
    }
    text.push_str("        }\n    };\n}\n");
    text
}

fn table_row(text: &mut String, module: Module, function: &Function) {
    let Function { name, arguments, returns, facts } = function;
    let (major, minor, patch) = facts.since.unwrap_or_default();
    let arguments: Vec<String> =
        arguments.iter().map(|(name, ty)| format!("{name}: {}", exported(&type_text(ty)))).collect();
    let returns = returns.as_ref().map_or("()".into(), |ty| exported(&type_text(ty)));
    let _ = writeln!(text, "                #[doc = {:?}]", doc(module, name, *facts));
    let _ = writeln!(
        text,
        "                since({major}, {minor}, {patch}) deprecated({}) fn {name}/{}({}) -> {returns};",
        facts.deprecated,
        variant(name),
        arguments.join(", "),
    );
}

/// `cudnnCreate` as a Rust enum's variant: `CudnnCreate`.
fn variant(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// A type as it must stand in an exported macro: the crate's own names found from anywhere.
fn exported(ty: &str) -> String {
    let (pointers, name) = ty.rsplit_once(' ').map_or(("", ty), |(pointers, name)| (pointers, name));
    let space = if pointers.is_empty() { "" } else { " " };
    let own = name.starts_with("cud") || name.starts_with("library");
    format!("{pointers}{space}{}{name}", if own { "$crate::" } else { "" })
}

fn open_enum(text: &mut String, module: Module, item: &Enum) {
    let _ = writeln!(text, "open_enum! {{");
    let _ = writeln!(text, "    #[doc = {:?}]", doc(module, &item.name, item.facts));
    let _ = writeln!(text, "    {}: {} {{", item.name, item.repr);
    for (name, value, facts) in &item.enumerators {
        let _ = writeln!(text, "        #[doc = {:?}]", doc(module, &item.name, *facts));
        let _ = writeln!(text, "        {name} = {value};");
    }
    text.push_str("    }\n}\n");
}

fn other_item(module: Module, other: &Other) -> Result<String, Error> {
    let doc = format!(" {}", doc(module, &other.name, other.facts));
    let mut item = other.item.clone();
    let attribute: syn::Attribute = syn::parse_quote!(#[doc = #doc]);
    let attributes = match &mut item {
        syn::Item::Struct(item) => {
            for field in &mut item.fields {
                let doc = match &field.ident {
                    Some(name) if name == "_unused" => continue,
                    Some(name) => format!(" `{name}`, as in `{}`.", other.name),
                    None => format!(" The value of `{}`.", other.name),
                };
                field.attrs.push(syn::parse_quote!(#[doc = #doc]));
            }
            &mut item.attrs
        }
        syn::Item::Type(item) => &mut item.attrs,
        syn::Item::Const(item) => &mut item.attrs,
        _ => return Err(Error::new(format!("no form is known for {}", other.name))),
    };
    attributes.insert(0, attribute);
    Ok(prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items: vec![item] }))
}

/// Every name that is no function, for the tests that hold the bindings against the C compiler.
pub(crate) fn names(text: &mut String, parsed: &Parsed) {
    let since = |facts: ItemMeta| {
        let (major, minor, patch) = facts.since.unwrap_or_default();
        format!("since({major}, {minor}, {patch})")
    };
    for item in &parsed.enums {
        let _ = writeln!(text, "    {} enum({});", since(item.facts), item.name);
        for (name, _, facts) in &item.enumerators {
            let _ = writeln!(text, "    {} enumerator({} {name});", since(*facts), item.name);
        }
    }
    for Other { item, name, facts } in &parsed.others {
        let _ = match item {
            syn::Item::Struct(item) => {
                let fields: Vec<String> =
                    item.fields.iter().filter_map(|field| field.ident.as_ref()).map(ToString::to_string).collect();
                // An incomplete struct has no layout to be held against anything.
                if fields == ["_unused"] {
                    continue;
                }
                writeln!(text, "    {} struct({name} {});", since(*facts), fields.join(" "))
            }
            syn::Item::Const(_) => writeln!(text, "    {} constant({name});", since(*facts)),
            _ => writeln!(text, "    {} alias({name});", since(*facts)),
        };
    }
}

/// What is known of every name, a line each.
pub(crate) fn facts(text: &mut String, parsed: &Parsed) {
    let mut line = |name: &str, facts: &ItemMeta| {
        let _ = writeln!(text, "{name} {facts}");
    };
    for item in &parsed.enums {
        line(&item.name, &item.facts);
        item.enumerators.iter().for_each(|(name, _, facts)| line(name, facts));
    }
    parsed.others.iter().for_each(|other| line(&other.name, &other.facts));
    parsed.functions.iter().for_each(|function| line(&function.name, &function.facts));
}

/// The file around them.
pub(crate) fn all_facts(facts: &str, source: &Source) -> String {
    format!("{}{facts}", first_line(source))
}

/// The file around them.
pub(crate) fn all_names(names: &str, source: &Source) -> String {
    format!("{}\nall_names! {{\n{names}}}\n", first_line(source))
}

fn first_line(source: &Source) -> String {
    format!("// Generated by `{}` from {}. Do not edit.\n", source.command, source.description)
}

/// What an item's documentation says: sub-library, since when, deprecated since when, and where to read more.
fn doc(module: Module, name: &str, facts: ItemMeta) -> String {
    let dotted = |(major, minor, patch): Version| format!("{major}.{minor}.{patch}");
    let mut text = match module {
        Module::Cuda => return "A type of CUDA's, as cuDNN's headers name it.".into(),
        _ => format!("`libcudnn_{}`", module.name()),
    };
    let _ = write!(text, ", since cuDNN {}.", dotted(facts.since.unwrap_or_default()));
    match facts.deprecated_since {
        Some(release) => {
            let _ = write!(text, " **Deprecated** since cuDNN {}.", dotted(release));
        }
        None if facts.deprecated => text.push_str(" **Deprecated**."),
        None => {}
    }
    let _ = write!(text, " [NVIDIA's page]({})", page(module, name));
    text
}

fn page(module: Module, name: &str) -> String {
    let base = "https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api";
    match module {
        // NVIDIA publishes no page of its own for this sub-library.
        Module::Ext | Module::Cuda => format!("{base}/overview.html"),
        _ => format!("{base}/cudnn-{}-library.html#{}", module.name(), name.to_lowercase().replace('_', "-")),
    }
}
