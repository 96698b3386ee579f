"""Between microdata and the float matrix on which methods and measures work.

Source: Lasko and Vinterbo 2010, sections III and IV-A, with the missing values and the calibrated decoding
that the paper lacks.
"""

from anoncore.encoding.block import Block, NumericScale
from anoncore.encoding.encoder import Encoder
from anoncore.encoding.scores import Decoding, logistic_probabilities, probability_names
from anoncore.encoding.tables import EncodedTables

__all__ = [
    "Block",
    "Decoding",
    "EncodedTables",
    "Encoder",
    "NumericScale",
    "logistic_probabilities",
    "probability_names",
]
