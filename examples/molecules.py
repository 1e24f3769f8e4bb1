"""A network for your molecules: from a CSV of SMILES to a trained, exported network and its predictions.

Run: python examples/molecules.py (needs rdkit: pip install ".[chem]")
"""

from pathlib import Path

import gnas
from gnas.report import write_report

HERE = Path(__file__).parent

# logP grows with the molecule, so the network adds up its atoms instead of averaging them.
benchmark = gnas.load(HERE / "molecules.csv", target="logP", readout="sum", seed=0)
settings = gnas.Settings.resolve("wide", cells=2, channels=16, epochs=8, search={"trials": 4}, baselines=())

found = gnas.discover(benchmark, settings, "runs/molecules", force=True)
print("depth", found.genotype.depth(), *found.genotype.formulas(), sep="\n  ")
print(found.leaderboard.to_markdown())
print("report:", write_report(found.folder))

exported = gnas.export_run(found.folder, "exported", force=True)
print("exported:", *sorted(file.name for file in exported.iterdir()))

answers = gnas.predict(found.folder, HERE / "new_molecules.csv", "predictions.csv", force=True)
print(f"{len(answers)} predictions in predictions.csv")
