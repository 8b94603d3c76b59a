"""What a mixture says of rows, in 60 digits and more: from the very doubles of its parameters, by dense algebra.

Numbers are mpmath's, to which every double converts exactly. A component is an `amofa._parameters.Component`.
"""

import numpy as np
from mpmath import exp, fdot, log, mp, mpf, pi, sqrt

# Of a covariance matrix of condition 1e24 this leaves 36 digits.
mp.dps = 60


def exact(values):
    """Return the doubles of an array as a list of mpmath numbers, or a list of such lists."""
    return [exact(v) for v in values] if np.ndim(values) else mpf(float(values))


class Gaussian:
    """N(mean, Sigma) by the Cholesky factor L of Sigma = Lambda Lambda' + Psi."""

    def __init__(self, mean, covariance):
        self.mean, self.covariance = mean, covariance
        self.lower = cholesky(covariance)
        self.log_determinant = 2 * sum(log(self.lower[i][i]) for i in range(len(mean)))

    @classmethod
    def of_component(cls, c):
        """Make the Gaussian of a component, without its weight."""
        rows = exact(c.loadings.T)
        psi = exact(c.uniquenesses)
        covariance = [[fdot(a, b) for b in rows[: i + 1]] for i, a in enumerate(rows)]
        for i, variance in enumerate(psi):
            covariance[i][i] += variance
        d = len(psi)
        found = cls(exact(c.mean), [[covariance[max(i, j)][min(i, j)] for j in range(d)] for i in range(d)])
        found.white_loadings = [forward(found.lower, exact(factor)) for factor in c.loadings]
        return found

    def marginal(self, columns):
        """Return the marginal Gaussian of some columns."""
        return Gaussian([self.mean[j] for j in columns], [[self.covariance[i][j] for j in columns] for i in columns])

    def whitened(self, row):
        """L^-1 (x - mean)."""
        return forward(self.lower, [x - m for x, m in zip(exact(row), self.mean, strict=True)])

    def log_density(self, row):
        """Nats."""
        white = self.whitened(row)
        return -(len(row) * log(2 * pi) + self.log_determinant + fdot(white, white)) / 2

    def factor_scores(self, row):
        """E[z | x] = Lambda' Sigma^-1 (x - mean), for one that was made of a component."""
        white = self.whitened(row)
        return [fdot(factor, white) for factor in self.white_loadings]

    def conditional(self, known, wanted, values):
        """Mean and covariance matrix of the wanted columns given values of the known ones."""
        given = self.marginal(known)
        white = given.whitened(values)
        shared = [forward(given.lower, [self.covariance[i][j] for i in known]) for j in wanted]
        mean = [self.mean[j] + fdot(s, white) for j, s in zip(wanted, shared, strict=True)]
        covariance = [
            [self.covariance[i][j] - fdot(s, t) for j, t in zip(wanted, shared, strict=True)]
            for i, s in zip(wanted, shared, strict=True)
        ]
        return mean, covariance


def woodbury_log_density(c, row):
    """Return the log density of `Gaussian` without d x d matrices: 60 digits are enough for Woodbury's identity."""
    psi, e = exact(c.uniquenesses), [x - m for x, m in zip(exact(row), exact(c.mean), strict=True)]
    loadings = exact(c.loadings)
    scaled = [[v / u for v, u in zip(f, psi, strict=True)] for f in loadings]
    lower = cholesky([[fdot(f, g) + (q == r) for r, g in enumerate(loadings)] for q, f in enumerate(scaled)])
    white = forward(lower, [fdot(f, e) for f in scaled])
    distance = fdot(e, [v / u for v, u in zip(e, psi, strict=True)]) - fdot(white, white)
    log_determinant = sum(log(u) for u in psi) + 2 * sum(log(line[-1]) for line in lower)
    return -(len(e) * log(2 * pi) + log_determinant + distance) / 2


def cholesky(a):
    """L, lower triangular, as a list of rows that end at the diagonal, with a = L L'."""
    lower = []
    for i, row in enumerate(a):
        line = []
        for j in range(i):
            line.append((row[j] - fdot(line, lower[j][:j])) / lower[j][j])
        line.append(sqrt(row[i] - fdot(line, line)))
        lower.append(line)
    return lower


def forward(lower, b):
    """Solve L y = b."""
    y = []
    for line, value in zip(lower, b, strict=True):
        y.append((value - fdot(line[:-1], y)) / line[-1])
    return y


def log_joint(gaussians, weights, row):
    """log pi_k N(row; mu_k, Sigma_k), K of them; the weights are all positive."""
    return [log(mpf(float(w))) + g.log_density(row) for g, w in zip(gaussians, weights, strict=True)]


def log_density_and_responsibilities(joint):
    """Return both from the K log joint densities of a row."""
    top = max(joint)
    total = sum(exp(v - top) for v in joint)
    return top + log(total), [exp(v - top) / total for v in joint]


# ---- errors of doubles -----------------------------------------------------------------------------------------------


def differences(actual, expected):
    """|actual - expected| as doubles, for an array of doubles and what it should be, in its shape."""
    return np.array(
        [
            float(abs(mpf(float(a)) - e)) if np.ndim(a) == 0 else differences(a, e)
            for a, e in zip(actual, expected, strict=True)
        ]
    )


def doubles(values):
    """Nearest doubles, as an array."""
    return np.array([doubles(v) if isinstance(v, list) else float(v) for v in values])
