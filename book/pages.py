"""A preprocessor of mdBook that makes pages from the data in docs/data, which tests write.

A link to `data/NAME.csv` or `data/NAME.json` in another page leads to the page NAME.
"""
import csv
import json
import sys

CALLS = "A program makes a call while one library is faulty. `…` is the directory of the installation."
REPORTS = "Problems from public bug trackers, recreated, and what programs print. `…` is the directory of the situation."
PAGES = {
    "fault-matrix.csv": ("The fault matrix", CALLS),
    "repairs.json": ("Repairs, situation by situation", "What `fix --yes` did to broken environments. `~` is the home directory."),
    "what-goes-wrong.json": ("What goes wrong", REPORTS),
    "what-goes-wrong-with-frameworks.json": ("What goes wrong with frameworks", REPORTS),
}


def table(file):
    """Makes one table for each library, which is the first field of a record."""
    columns, *records = csv.reader(file)
    lines, library = [], None
    for record in records:
        if record[0] != library:
            library = record[0]
            lines += ["", f"## {library}", "", "| " + " | ".join(columns[1:]) + " |", "| --- " * len(columns[1:]) + "|"]
        fields = (field.replace("|", "\\|").replace("<", "&lt;") for field in record[1:])
        lines.append("| " + " | ".join(fields) + " |")
    return lines


def repairs(file):
    """Makes a table for each installer."""
    lines = []
    for heading, records in json.load(file).items():
        lines += ["", f"## {heading}", "", "| situation | before | plan | after |", "| --- | --- | --- | --- |"]
        for record in records:
            plan = "<br>".join("`" + line.replace("|", "\\|") + "`" for line in record["plan"])
            before, after = (", ".join(record[key]) or "nothing" for key in ("before", "after"))
            lines.append(f"| {record['situation']} | {before} | {plan or 'nothing to do'} | {after} |")
    return lines


def reports(file):
    """Makes a section for each report."""
    lines = []
    for number, report in enumerate(json.load(file), 1):
        lines += ["", f"## {number}. {report.pop('situation')[0]}"]
        for name, text in sorted(report.items()):
            lines += ["", f"{name}:", "", *("    " + line for line in text)]
    return lines


def chapter(name):
    title, introduction = PAGES[name]
    with open(f"docs/data/{name}", encoding="utf-8", newline="") as file:
        make = {"fault-matrix.csv": table, "repairs.json": repairs}.get(name, reports)
        lines = make(file)
    text = "\n".join([f"# {title}", "", introduction, *lines, ""])
    path = name.rsplit(".")[0] + ".md"
    chapter = {"name": title, "content": text, "number": None, "sub_items": [], "path": path, "source_path": path}
    return {"Chapter": {**chapter, "parent_names": []}}


# mdBook asks with the argument `supports` whether the preprocessor works for a renderer.
if sys.argv[1:2] != ["supports"]:
    _, book = json.load(sys.stdin)
    book["items"] += map(chapter, PAGES)
    json.dump(book, sys.stdout)
