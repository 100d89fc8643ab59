"""A preprocessor of mdBook that makes pages from the data in docs/data, which tests or people write.

A link to `data/NAME.csv` or `data/NAME.json` in another page leads to the page NAME.
"""
import csv
import json
import pathlib
import sys

CALLS = "A program makes a call while one library is faulty. `…` is the directory of the installation."
REPORTS = "Problems from public bug trackers, recreated, and what programs print. `…` is the directory of the situation."
FINDINGS = "The codes that `cudnn-doctor` prints. The meaning of a code never changes. `facts CODE` explains one."
HOOKS = "Programs with hooks, tools and allocators in the same process. See [Coexistence](guide/coexistence.md)."
PAGES = {
    "coexistence.csv": ("Coexistence, case by case", HOOKS),
    "findings.json": ("Findings of the doctor", FINDINGS),
    "fault-matrix.csv": ("The fault matrix", CALLS),
    "machines.csv": ("Thirteen machines", "What the doctor [said and says](measurements/machines.md) about them."),
    "mutations.csv": ("Promises and the tests that protect them", "[Each promise was broken](measurements/mutations.md)."),
    "repairs.json": ("Repairs, situation by situation", "What `fix --yes` did to broken environments. `~` is the home directory."),
    "tuned-starts.csv": ("First steps with tuned engines", "Seconds, as [explained](measurements/tuned.md#starts)."),
    "tuned-steps.csv": ("Steps with tuned engines", "Milliseconds, as [explained](measurements/tuned.md#steps)."),
    "validate-rules.csv": ("The rules of `validate`", "Mistakes that the layer [validate](guide/validate.md) names."),
    "what-goes-wrong.json": ("What goes wrong", REPORTS),
    "what-goes-wrong-with-frameworks.json": ("What goes wrong with frameworks", REPORTS),
}


def rows(fields):
    return "| " + " | ".join(field.replace("|", "\\|").replace("<", "&lt;") for field in fields) + " |"


def table(file):
    columns, *records = csv.reader(file)
    return ["", rows(columns), "| --- " * len(columns) + "|", *map(rows, records)]


def fault_matrix(file):
    """Makes one table for each library, which is the first field of a record."""
    columns, *records = csv.reader(file)
    lines, library = [], None
    for record in records:
        if record[0] != library:
            library = record[0]
            lines += ["", f"## {library}", "", rows(columns[1:]), "| --- " * len(columns[1:]) + "|"]
        lines.append(rows(record[1:]))
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


def findings(file):
    """Makes a section for each code, with an example from the doctor's tests if there is one."""
    lines = []
    for finding in json.load(file):
        code = finding["code"]
        lines += ["", f"## {code}", "", f"**{finding['severity']}: {finding['title']}.** {finding['cause']}"]
        report = pathlib.Path(f"doctor/cudnn-doctor/tests/facts/{code}.txt")
        parts = report.read_text(encoding="utf-8").split("\n\n") if report.exists() else []
        for part in parts:
            if f"[{code}]: " in part.splitlines()[0]:
                shown = [line for line in part.splitlines() if not line.startswith(("  = note", "  = read more"))]
                lines += ["", "```text", *shown, "```"]
    return lines


def reports(file):
    """Makes a section for each report."""
    lines = []
    for number, report in enumerate(json.load(file), 1):
        lines += ["", f"## {number}. {report.pop('situation')[0]}"]
        for name, text in sorted(report.items()):
            lines += ["", f"{name}:", "", *("    " + line for line in text)]
    return lines


MAKERS = {
    "coexistence.csv": table,
    "fault-matrix.csv": fault_matrix,
    "findings.json": findings,
    "machines.csv": table,
    "mutations.csv": table,
    "repairs.json": repairs,
    "tuned-starts.csv": table,
    "tuned-steps.csv": table,
    "validate-rules.csv": table,
    "what-goes-wrong.json": reports,
    "what-goes-wrong-with-frameworks.json": reports,
}


def chapter(name):
    title, introduction = PAGES[name]
    with open(f"docs/data/{name}", encoding="utf-8", newline="") as file:
        lines = MAKERS[name](file)
    text = "\n".join([f"# {title}", "", introduction, *lines, ""])
    path = name.rsplit(".")[0] + ".md"
    chapter = {"name": title, "content": text, "number": None, "sub_items": [], "path": path, "source_path": path}
    return {"Chapter": {**chapter, "parent_names": []}}


# mdBook asks with the argument `supports` whether the preprocessor works for a renderer.
if sys.argv[1:2] != ["supports"]:
    _, book = json.load(sys.stdin)
    book["items"] += map(chapter, PAGES)
    json.dump(book, sys.stdout)
