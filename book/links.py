"""A preprocessor of mdBook that adapts the links of pages, which are written for code hosts.

A link to a file outside of docs leads to `git-repository-url` of book.toml. While that is not set, the link becomes
text with the path as its tooltip. A link to README.md leads to index.html, because mdBook renames that page, and a link
to a file in docs/data to the page that `pages.py` makes of it. Codes of findings, such as C014, become links.
"""
import json
import posixpath
import re
import sys

CODE_OR_LINK = re.compile(r"```.*?```|`[^`]*`|^#.*?$|\[([^\]]*)\]\(([^)\s]+)\)|\b(C\d{3})\b", re.DOTALL | re.MULTILINE)


def adapt(text, directory, repository):
    def replace(match):
        label, target, code = match.groups()
        if code:
            return f"[{code}]({posixpath.relpath('findings.md', directory or '.')}#{code.lower()})"
        if not target or ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join("docs", directory, target))
        if path.startswith("docs/data/"):
            name = posixpath.splitext(posixpath.basename(path))[0]
            return f"[{label}]({posixpath.relpath('docs/' + name, posixpath.join('docs', directory))}.md)"
        if path.startswith("docs/"):
            return f"[{label}]({target.replace('README.md', 'index.md')})"
        if repository:
            return f"[{label}]({repository}/blob/HEAD/{path})"
        return f'<span title="in the repository: {path}">{label}</span>'

    return CODE_OR_LINK.sub(replace, text)


def walk(items, repository):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            chapter = item["Chapter"]
            directory = posixpath.dirname(chapter["source_path"] or "")
            chapter["content"] = adapt(chapter["content"], directory, repository)
            walk(chapter["sub_items"], repository)


# mdBook asks with the argument `supports` whether the preprocessor works for a renderer.
if sys.argv[1:2] != ["supports"]:
    context, book = json.load(sys.stdin)
    walk(book["items"], context["config"]["output"]["html"].get("git-repository-url", "").rstrip("/"))
    json.dump(book, sys.stdout)
