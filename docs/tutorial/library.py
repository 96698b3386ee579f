# %% [markdown]
# # Mask and measure with the library
#
# `anoncore` is a library of its own: tables with a schema, masking methods, and measures of disclosure risk and
# utility. It needs no server and writes no files. [Download this notebook](library.ipynb).
#
# The data are a part of NHEFS, the NHANES I follow-up study: 1629 people, public.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from causaldata import nhefs

import anoncore
from anoncore.methods import MDAV, SpectralSwap

columns = "qsmk sex age race education income wt71 wt82 smokeintensity sbp dbp"
frame = nhefs.load_pandas().data[columns.split()].dropna()
len(frame)

# %% [markdown]
# ## Infer a schema
#
# A schema states the kind and the role of each variable. `Schema.infer` proposes both; review the proposal.

# %%
schema = anoncore.Schema.infer(frame)
schema

# %% [markdown]
# ## Hold out a reference
#
# Risk is measured by comparison with people who are not in the release. Half of the people are held out at random.
# The representation of microdata shows its variables and never a value.

# %%
half = len(frame) // 2
shuffled = frame.sample(frac=1, random_state=1).reset_index(drop=True)
people = anoncore.Microdata.from_frame(shuffled[:half], schema)
reference = anoncore.Microdata.from_frame(
    shuffled[half : 2 * half].reset_index(drop=True), schema
)
people

# %% [markdown]
# ## Mask with two methods
#
# Spectral swapping permutes principal scores and proves nothing about a single record. MDAV replaces groups of k
# records by their mean and claims k-anonymity, which is recomputed from the output.
#
# A random generator is always required. Its seed is a secret in practice: it would allow the masking to be undone.

# %%
rng = np.random.default_rng(1)
swapped = anoncore.anonymize(people, SpectralSwap(), rng=rng)
grouped = anoncore.anonymize(people, MDAV(k=5), rng=rng)
grouped.check()

# %% [markdown]
# ## Measure disclosure risk
#
# Every figure has its baseline: the reference sample.

# %%
releases = {"spectral swapping": swapped, "MDAV, k = 5": grouped}
risk = {
    name: anoncore.measure_risk(people, r.data, reference, rng=rng)
    for name, r in releases.items()
}
figures = ["released_median", "reference_median", "upper", "verdict"]
pd.concat(
    {
        name: pd.DataFrame(map(vars, report.comparison.measures)).set_index("name")
        for name, report in risk.items()
    }
)[figures].round(3)

# %% [markdown]
# With groups of identical records uncertainty is 0 and ambiguity 1 whatever the risk. They carry no information about
# MDAV, and its other measures decide. An attack on membership distinguishes members from non-members by their distance
# to the nearest released record; an area of 0.5 is guessing.

# %%
pd.DataFrame({name: vars(report.membership) for name, report in risk.items()})

# %% [markdown]
# ## Measure utility
#
# A figure at or below the reference's is sufficient: the release changes the statistic no more than asking other
# people would have.

# %%
utility = {
    name: anoncore.measure_utility(people, r.data, reference)
    for name, r in releases.items()
}
utility["spectral swapping"]

# %%
names = ["mean", "variance", "correlation", "rank_correlation"]
figure, axis = plt.subplots(figsize=(7, 3))
for offset, (label, report) in zip((-0.2, 0.2), utility.items(), strict=True):
    axis.bar(
        np.arange(4) + offset,
        [report.figure(n).released_median for n in names],
        0.4,
        label=label,
    )
axis.plot(
    np.arange(4),
    [report.figure(n).reference_median for n in names],
    "k_",
    markersize=40,
    label="reference",
)
axis.set_xticks(np.arange(4), [n.replace("_", " ") for n in names])
axis.set_ylabel("median difference")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# Swapping preserves means, and loses less of the variances than MDAV, whose groups hide the variation inside them.
#
# Next: [the pipeline](pipeline.md) adds a policy with gates, publication and an audit trail.
