# %% [markdown]
# # A benchmark: suite, runs, report
# A suite is YAML: networks, streams, recipes and seeds. It is checked as a whole before anything runs.

# %%
import tempfile
from pathlib import Path

from holdfast.benchmark import bench, parse_suite
from holdfast.report import make_report, report_to_markdown, write_report

suite = parse_suite("""
name: mine
models: [digits_resnet]
seeds: [0, 1]
batch_size: 64
source: {name: digits, split: validation, samples: 224}
streams:
  - &shuffled
    {name: continual, label: shuffled, data: digits, corruptions: [gaussian_noise, fog], samples_per_domain: 128}
  - {<<: *shuffled, label: sorted by class, order: sorted}
recipes: [source, batch_norm, blend]
""")
print(len(suite.jobs()), "runs")

# %% [markdown]
# Each run has a folder: manifest, one row for each batch, and the newest state. An interrupted run resumes where it
# was, a finished one is not repeated.

# %%
folder = Path(tempfile.mkdtemp())
outcomes = bench(suite.jobs(), folder)
assert not any(outcome.error for outcome in outcomes)
assert all(bench(suite.jobs(), folder))  # nothing is left to do

# %% [markdown]
# The report is made from the files alone: one HTML file, with CSV, Markdown and LaTeX beside it.

# %%
report = make_report(folder, "accuracy")
page = write_report(report)
print(page.name, "and", len(list(folder.glob("report-*"))), "tables")
for table in report.tables:
    print(table.title, "–", table.conclusion)
assert "source" in report_to_markdown(report)
