# %% [markdown]
# # Mask and measure with the library
#
# `anoncore` is a library of its own: tables with a schema, masking methods, and measures of disclosure risk and
# utility. It needs no server and writes no files.
# [Download this notebook](library.ipynb).
#
# The data are a part of NHEFS, the NHANES I follow-up study: 1629 people, public.

# %%
import numpy as np
from causaldata import nhefs

import anoncore

columns = "qsmk sex age race education income wt71 wt82 smokeintensity smokeyrs exercise active sbp dbp cholesterol"
frame = nhefs.load_pandas().data[columns.split()]

# %% [markdown]
# ## Infer a schema
#
# A schema states the kind and the role of each variable. `Schema.infer` proposes both; review the proposal. The
# representation of microdata never shows values.

# %%
schema = anoncore.Schema.infer(frame)
[(v.name, v.kind, v.role) for v in schema]

# %% [markdown]
# ## Hold out a reference
#
# Risk is measured by comparison with people who are not in the release. Half of the people are held out at random.

# %%
rng = np.random.default_rng(20)
order = rng.permutation(len(frame))
half = len(frame) // 2
people = anoncore.Microdata.from_frame(frame.iloc[order[:half]].reset_index(drop=True), schema)
reference = anoncore.Microdata.from_frame(frame.iloc[order[half : 2 * half]].reset_index(drop=True), schema)
people
