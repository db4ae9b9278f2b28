"""Writes noise_*.txt and expected.txt: series, and what other people's packages say of them.

Run once, with the versions that the first line of expected.txt names; the tests of
`imbrex_workload::statistics` compare with what it wrote.
"""

from importlib.metadata import version

import nolds
import numpy as np
import pywt
import scipy
import statsmodels
from scipy.optimize import minimize_scalar
from scipy.signal import periodogram
from scipy.special import digamma, zeta
from statsmodels.tsa.stattools import acf

LAGS = [1, 2, 5, 10, 50, 400]
SERIES = [(0.5, 2048), (0.6, 3001), (0.75, 2048), (0.9, 3001)]


def rescaled_range(x):
    lens = [32 * 2**i for i in range(20) if len(x) // (32 * 2**i) >= 4]
    return nolds.hurst_rs(x, nvals=lens, fit="poly", corrected=False, unbiased=False)


def aggregate_variance(x):
    lens = [int(4 * 2 ** (i / 2) + 0.5) for i in range(40)]
    lens = [m for m in lens if len(x) // m >= 64]
    means = [x[: len(x) // m * m].reshape(-1, m).mean(axis=1) for m in lens]
    return 1 + np.polyfit(np.log(lens), np.log([m.var() for m in means]), 1)[0] / 2


def spectrum(x):
    frequency, power = periodogram(x, detrend="constant", scaling="density")
    inner = slice(1, (len(x) + 1) // 2)
    return 2 * np.pi * frequency[inner], power[inner]


def lowest_frequencies(x):
    angle, power = spectrum(x)
    part = len(angle) // 10
    return (1 - np.polyfit(np.log(angle[:part]), np.log(power[:part]), 1)[0]) / 2


def abry_veitch(x):
    wavelet = pywt.Wavelet("db3")
    low, high = np.array(wavelet.rec_lo), np.array(wavelet.rec_hi)
    level, octave, rows = x, 0, []
    while len(level) >= 20:
        octave += 1
        detail = np.convolve(level, high[::-1], "valid")[::2]
        level = np.convolve(level, low[::-1], "valid")[::2]
        half = len(detail) / 2
        bias = digamma(half) / np.log(2) - np.log2(half)
        rows.append((octave, np.log2(np.mean(detail**2)) - bias, np.sqrt(zeta(2, half)) / np.log(2)))
    j, y, deviation = np.array(rows[2:]).T
    (slope, _), covariance = np.polyfit(j, y, 1, w=1 / deviation, cov="unscaled")
    return (slope + 1) / 2, 1.959963984540054 * np.sqrt(covariance[0, 0]) / 2


def whittle(x):
    angle, power = spectrum(x)

    def misfit(h):
        p, turn = 2 * h + 1, angle / (2 * np.pi)
        density = (1 - np.cos(angle)) * (zeta(p, turn) + zeta(p, 1 - turn))
        return np.log(np.mean(power / density)) + np.mean(np.log(density))

    return minimize_scalar(misfit, bounds=(0.01, 0.999), method="bounded", options={"xatol": 1e-9}).x


np.random.seed(6)
lines = [
    f"# numpy {np.__version__}, scipy {scipy.__version__}, statsmodels {statsmodels.__version__}, "
    f"nolds {version('nolds')}, PyWavelets {pywt.__version__}; written by expected.py"
]
for h, length in SERIES:
    name = f"noise_{round(100 * h):03}.txt"
    x = np.round(1000 * nolds.fgn(length, H=h))
    np.savetxt(name, x, fmt="%d")
    lines.append(name)
    for lag in LAGS:
        lines.append(f"autocorrelation {lag} {acf(x, adjusted=True, fft=False, nlags=lag)[lag]:.12f}")
    lines.append(f"aggregate_variance {aggregate_variance(x):.9f}")
    lines.append(f"rescaled_range {rescaled_range(x):.9f}")
    lines.append(f"periodogram {lowest_frequencies(x):.9f}")
    lines.append("abry_veitch {:.9f} {:.9f}".format(*abry_veitch(x)))
    lines.append(f"whittle {whittle(x):.9f}")
with open("expected.txt", "w") as out:
    out.write("\n".join(lines) + "\n")
