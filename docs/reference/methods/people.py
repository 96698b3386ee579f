"""Write the table of the examples, 800 invented people, to people.csv."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
age = rng.integers(18, 90, 800)
area = rng.choice(list("nesw"), 800)
income = (np.exp(rng.normal(9.5, 0.5, 800)) + 100 * age).round()
people = pd.DataFrame(
    {
        "person": np.arange(800),
        "sex": rng.choice(["f", "m"], 800),
        "age": age,
        "area": area,
        "zip": rng.choice(["4101", "4102", "4203", "5101", "5204"], 800),
        "school": rng.binomial(4, 0.5, 800),
        "marital": rng.choice(["single", "married", "divorced", "widowed"], 800, p=[0.3, 0.5, 0.15, 0.05]),
        "income": income,
        "rent": (income * rng.uniform(0.1, 0.3, 800)).round(),
        "veteran": (rng.random(800) < np.where(area == "e", 0.3, 0.05)).astype(int),
    }
)
people.to_csv("people.csv", index=False)
