# %% [markdown]
# # Run the pipeline
#
# This notebook drafts a plan, runs it, and reads the assessment and the ledger. Commands that begin with `!` are those
# of the command line. [Download this notebook](pipeline.ipynb).
#
# ## Draft a plan
#
# The data are a part of NHEFS, the NHANES I follow-up study, which is public.

# %%
import json
from pathlib import Path

import anonflow
import pandas as pd
from causaldata import nhefs

columns = "seqn qsmk sex age race education income wt71 wt82 smokeintensity smokeyrs sbp dbp cholesterol"
nhefs.load_pandas().data[columns.split()].to_csv("people.csv", index=False)

# %%
# !anonflow plan people.csv -o people.yaml
# !sed -n '/^variables:/,/^$/p' people.yaml

# %% [markdown]
# The first lines of the draft list what a person has to confirm; here nothing is left to ask. `education` and `income`
# are correct as codes with an order. `limits of age` are the extremes themselves, 25 and 74, since at least five people
# hold each; a limit that fewer hold is rounded outward, and a natural limit that is known should replace it.

# %%
# !anonflow check people.yaml

# %% [markdown]
# ## Run it
#
# `--inline` runs the steps without a Prefect server. The draft states `approval: person`, so the candidate waits even
# if every gate passes.

# %%
# !anonflow run people.yaml --inline

# %% [markdown]
# ## Read the assessment
#
# `assessments/ID/` in the home contains the report, `report.html`, and the dossier: all facts about the candidate. A
# figure is meaningful only beside its baseline.

# %%
[folder] = Path(".anonflow/assessments").iterdir()
dossier = json.loads((folder / "dossier.json").read_text())
gates = pd.DataFrame(dossier["verdict"]["gates"])
gates[["name", "verdict", "figure", "limit", "baseline"]]

# %%
dossier["verdict"]["reason"]

# %% [markdown]
# The figures behind the gates, for example of the attack on membership, one row for each half of the people:

# %%
halves = dossier["assessment"]["halves"]
pd.DataFrame([half["risk"]["membership"] for half in halves])

# %% [markdown]
# ## Approve it and verify the ledger
#
# Without a list of approvers the name is accepted as typed. Each entry of the ledger contains the digest of the
# previous one and is signed; `audit verify` compares the ledger with the published files and with MLflow.

# %%
# !anonflow approve {folder.name} --by "Ann Smith" --reason "read the report" | tail -n 7
# !anonflow audit verify

# %% [markdown]
# `anonflow.open` reads a home for a notebook: `entries`, `releases`, `figures` and `approvals` are data frames.

# %%
records = anonflow.open(".anonflow")
records.entries()[["number", "time", "event", "about", "by"]]

# %%
records.approvals()

# %%
figures = records.figures()
pd.crosstab(figures["topic"], figures["verdict"])

# %% [markdown]
# ## Read the release
#
# Compare the maxima: masked values can exceed what is possible where no edit states a natural limit. `age` has one,
# `smokeyrs` (years of smoking) has not. State natural limits as edits.

# %%
release = Path(".anonflow/releases/people") / folder.name
sorted(path.name for path in release.iterdir())

# %%
released = pd.read_parquet(release / "data.parquet")
released[["age", "smokeyrs", "smokeintensity", "sbp"]].describe().round(1)
