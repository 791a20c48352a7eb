"""Outcome of an episode: how well the final answer matches the accepted ones (method 4.2, 4.5).

Text is compared after one normalisation: lower case, punctuation and symbols to spaces, white space collapsed. Articles
stay (the reference keeps them), and so do accents: "Malmö" and "Malmo" are different words.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

ANSWER_SPLIT = "<|answer_split|>"
"""Separates accepted answers in a verl ``ground_truth`` string."""


def normalise_answer(text: str) -> str:
    """Lower-case ``text``, turn punctuation and symbols into spaces, collapse white space.

    Unicode is brought to NFKC first, so that full-width digits and composed accents compare equal to the usual forms.
    """
    folded = unicodedata.normalize("NFKC", text).lower()
    # Categories P* (punctuation), S* (symbols) and C* (control, surrogates) separate words and never make one.
    spaced = "".join(" " if unicodedata.category(char)[0] in "PSC" else char for char in folded)
    return " ".join(spaced.split())


def exact_match(prediction: str | None, answers: Sequence[str]) -> float:
    """1.0 if the normalised prediction equals one of the normalised ``answers``, else 0.0.

    An answer made of punctuation only ("C++" is not, "++" is) normalises to nothing; such answers are compared as
    written, so that an empty prediction never matches.
    """
    _require_answers(answers)
    if prediction is None or not prediction.strip():
        return 0.0
    predicted = normalise_answer(prediction)
    for answer in answers:
        wanted = normalise_answer(answer)
        if wanted == predicted and (wanted or answer.strip() == prediction.strip()):
            return 1.0
    return 0.0


def word_f1(prediction: str | None, answers: Sequence[str]) -> float:
    """Word-level F1 over multisets, the best over the accepted ``answers``; 0.0 without a prediction."""
    _require_answers(answers)
    if prediction is None:
        return 0.0
    predicted = Counter(normalise_answer(prediction).split())
    return max(_multiset_f1(predicted, Counter(normalise_answer(answer).split())) for answer in answers)


def _multiset_f1(predicted: Counter[str], wanted: Counter[str]) -> float:
    shared = (predicted & wanted).total()
    if shared == 0:
        return 0.0
    # 2PR/(P+R) with P = shared/predicted and R = shared/wanted, without the rounding of two divisions.
    return 2.0 * shared / (predicted.total() + wanted.total())


def _require_answers(answers: Sequence[str]) -> None:
    if isinstance(answers, str):
        raise TypeError(f"answers must be a sequence of strings, got the string {answers!r}; pass [{answers!r}]")
    if not answers:
        raise ValueError("answers is empty: an outcome needs at least one accepted answer")
