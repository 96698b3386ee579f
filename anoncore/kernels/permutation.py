"""Uniform random permutations in buckets, the same however the records are cut into partitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.streams import Stream

Integers = NDArray[np.intp]

# Records per bucket, at most on average: a bucket stays in a processor's cache while it is permuted.
BUCKET_ROWS = 65_536
_WORD = 64
# Units whose buckets are drawn at once.
_UNITS_AT_ONCE = 65_536


def bucket_bits(n_records: int, rows: int = BUCKET_ROWS) -> int:
    """Return the number of bits of a bucket's number, such that buckets hold at most ``rows`` records on average.

    Examples
    --------
    >>> [bucket_bits(n) for n in (0, 65_536, 65_537, 1_000_000)]
    [0, 0, 1, 4]
    """
    return max(0, (max(n_records, 1) - 1) // rows).bit_length()


def buckets(stream: Stream, start: int, stop: int, bits: int) -> NDArray[np.uint16]:
    """Return (stop - start,) the random bucket, below 2^bits (bits at most 16), of each of these records."""
    if bits == 0:
        return np.zeros(stop - start, dtype=np.uint16)
    return (stream.named("bucket").words(start, stop) >> np.uint64(_WORD - bits)).astype(np.uint16)


def unit_buckets(stream: Stream, units: NDArray[np.integer], bits: int) -> NDArray[np.uint16]:
    """Return (N,) the random bucket of each record, that of its unit: `buckets` of units (N,), codes from 0."""
    distinct, at = np.unique(units, return_inverse=True)
    own = np.empty(len(distinct), dtype=np.uint16)
    blocks = distinct // _UNITS_AT_ONCE
    for block in np.unique(blocks).tolist():
        here, first = blocks == block, block * _UNITS_AT_ONCE
        own[here] = buckets(stream, first, first + _UNITS_AT_ONCE, bits)[distinct[here] - first]
    return own[at]


def permuted_in_buckets(values: NDArray[np.generic], counts: Integers, first: int, stream: Stream) -> None:
    """Permute the records of each bucket, in place.

    Parameters
    ----------
    values : (n, ...), records sorted by bucket, those of one bucket in their original order
    counts : (b,) int, the records of each of b consecutive buckets
    first : the number of the first bucket
    stream : Stream
    """
    stops = np.cumsum(counts)
    for number, (start, stop) in enumerate(zip(stops - counts, stops, strict=True), start=first):
        stream.named("order", number).generator().shuffle(values[start:stop])


def permutation(n_records: int, stream: Stream, rows: int = BUCKET_ROWS) -> Integers:
    """Draw a uniform random permutation.

    Parameters
    ----------
    n_records : int
    stream : Stream
    rows : int
        Records per bucket, at most on average.

    Returns
    -------
    (n_records,) int, which record comes to each place

    Notes
    -----
    Claim: each of the N! permutations is equally likely. Every record takes a bucket at random, independently of all
    others, and the records of each bucket are permuted. Exchanging two records leaves the distribution as it is, so
    that all orders are equally likely. Nothing depends on the order in which buckets are dealt with, nor on who does.

    Source: Rao (1961), Generation of random permutations of given number of elements using random sampling numbers,
    Sankhya A 23; Sandelius (1962), A simple randomization procedure, Journal of the Royal Statistical Society B 24.
    It needs no exchange matrix, which Sanders (1998) draws so that parts keep their sizes.

    Examples
    --------
    >>> np.sort(permutation(5, Stream.of(np.random.default_rng(0)), rows=2)).tolist()
    [0, 1, 2, 3, 4]
    """
    bits = bucket_bits(n_records, rows)
    own = buckets(stream, 0, n_records, bits)
    order = np.argsort(own, kind="stable")
    permuted_in_buckets(order, np.bincount(own, minlength=1 << bits), 0, stream)
    return order
