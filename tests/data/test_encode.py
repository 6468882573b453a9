"""Rows to tokens: which of them are learnt, by chat templates of several manners, and what becomes of long rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.encoding import EncodingConfig
from core_rl.data.encode import Encoder
from core_rl.data.records import Conversation, Labelled, Pair
from core_rl.errors import DataError
from core_rl.hf.tokenizer import character_tokenizer

CHATML = (
    "{% for m in messages %}{{ '[' + m['role'][0] + m['content'] }}<eos>{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[a' }}{% endif %}"
)
"""A marker before a message, the end of sequence and a line break after it."""
FORGETFUL = (
    "{% for m in messages %}{{ '[' + m['role'][0] }}"
    "{{ m['content'].split(')')[-1] if m['role'] == 'assistant' and not loop.last else m['content'] }}<eos>{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[a' }}{% endif %}"
)
"""As Qwen3's: a past turn of the assistant loses its thinking, what stands before `)`."""


def make(template=None, *, scored=False, limit=None, **options):
    tokenizer = character_tokenizer("()[]+= \n" + "0123456789" + "abcdefghijklmnopqrstuvwxyz")
    if template is not None:
        tokenizer.chat_template = template
    return Encoder(tokenizer, EncodingConfig(**options), max_length=limit, scored=scored)


def shown(encoder, one):
    """The text with what is learnt in capitals; the end of sequence is `$` where it is learnt, `.` where not."""
    words = []
    for token, learnt in zip(one.tokens, one.learnt, strict=True):
        word = ("$" if learnt else ".") if token == encoder.eos else encoder.tokenizer.decode([token])
        words.append(word.upper() if learnt else word)
    return "".join(words)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


TALK = (user("ab"), assistant("cd"), user("ef"), assistant("gh"))


@pytest.mark.parametrize(
    ("template", "train_on", "expected"),
    [
        (CHATML, "assistant", "[uab.\n[aCD$\n[uef.\n[aGH$"),
        (CHATML, "last", "[uab.\n[acd.\n[uef.\n[aGH$"),
        (CHATML, "all", "[UAB$\n[ACD$\n[UEF$\n[AGH$"),
        (None, "assistant", "abCDefGH$"),
        (None, "last", "abcdefGH$"),
        (None, "all", "aBCDEFGH$"),
    ],
)
def test_what_is_learnt_of_a_conversation(template, train_on, expected):
    """The assistant's words and its end of sequence, not the template's line break; one is added where the template has none."""
    encoder = make(template, train_on=train_on)
    (one,) = encoder(Conversation(id="row", completion=TALK))

    assert shown(encoder, one) == expected


def test_a_prompt_is_not_learnt_even_where_the_assistant_speaks_in_it():
    """Examples in a prompt are given, not imitated; with `all` everything is learnt."""
    row = Conversation(id="row", prompt=TALK[:3], completion=TALK[3:])
    encoder, everything = make(CHATML), make(CHATML, train_on="all")

    assert shown(encoder, encoder(row)[0]) == "[uab.\n[acd.\n[uef.\n[aGH$"
    assert shown(everything, everything(row)[0]).startswith("[UAB$")


def test_a_template_that_rewrites_past_turns_still_says_which_tokens_are_the_assistants():
    """The past turn is learnt as it stands in the text, up to its end of sequence; the last one with its thinking."""
    talk = (user("ab"), assistant("x)cd"), user("ef"), assistant("y)gh"))
    encoder = make(FORGETFUL)

    assert shown(encoder, encoder(Conversation(id="row", completion=talk))[0]) == "[uab.\n[aCD$\n[uef.\n[aY)GH$"


def test_a_template_that_rewrites_the_question_is_refused():
    """Nothing says where the answer begins; the message names the mend."""
    template = "{% for m in messages %}{{ messages | length ~ m['content'] }}{% endfor %}"

    with pytest.raises(DataError, match=r"row: the chat template writes what stands before message 2 otherwise.*train_on: all"):
        make(template)(Conversation(id="row", completion=TALK[:2]))


@pytest.mark.parametrize(
    ("row", "train_on", "expected"),
    [
        (Conversation(id="row", completion="abc"), "assistant", "aBC$"),
        (Conversation(id="row", prompt="ab", completion="cd"), "assistant", "abCD$"),
        (Conversation(id="row", prompt="ab", completion="cd"), "all", "aBCD$"),
        (Conversation(id="row", prompt="ab", completion=""), "assistant", "ab$"),
        (Labelled(id="row", prompt="ab", completion="c", desirable=True), "assistant", "abC$"),
    ],
)
def test_what_is_learnt_of_a_text(row, train_on, expected):
    """What follows the prompt and the end of sequence; the first token never, since nothing stands before it."""
    encoder = make(train_on=train_on)

    assert shown(encoder, encoder(row)[0]) == expected


def test_no_end_of_sequence_is_added_where_none_is_wanted():
    """`end: false` keeps a text as it is."""
    encoder = make(end=False)

    assert shown(encoder, encoder(Conversation(id="row", prompt="ab", completion="cd"))[0]) == "abCD"


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (Pair(id="row", prompt="ab", chosen="cd", rejected="ce"), ["abCD$", "abCE$"]),
        (Pair(id="row", prompt=(user("ab"),), chosen=(assistant("c"),), rejected=(assistant("d"),)), ["abC$", "abD$"]),
        (Pair(id="row", prompt=None, chosen=(*TALK[:3], assistant("c")), rejected=TALK), ["abcdefC$", "abcdefGH$"]),
        (Pair(id="row", prompt=None, chosen="abcd", rejected="abe"), ["abCD$", "abE$"]),
        (Pair(id="row", prompt=None, chosen="ab", rejected="cd"), ["aB$", "cD$"]),
    ],
)
def test_the_prompt_of_a_pair_is_given_or_what_both_sides_begin_with(pair, expected):
    """Messages that both begin with, or tokens of two whole texts; what differs is learnt, whatever `train_on` says."""
    encoder = make(train_on="all")

    assert [shown(encoder, one) for one in encoder(pair)] == expected


def test_a_reward_model_learns_one_token_after_each_sequence():
    """Its value speaks of the whole sequence, the end of sequence and all."""
    encoder = make(scored=True)
    pair = Pair(id="row", prompt="ab", chosen="cd", rejected="e")

    assert [shown(encoder, one) for one in encoder(pair)] == ["abcd.$", "abe.$"]


@pytest.mark.parametrize("scored", [False, True])
def test_long_rows(scored):
    """Left out, cut at the end (the token that is scored stays), or an error with the numbers."""
    row = Pair(id="row", prompt="ab", chosen="cdef", rejected="c")

    assert make(limit=5, scored=scored)(row) is None
    cut = make(limit=5, scored=scored, too_long="truncate")
    assert [shown(cut, one) for one in cut(row)] == (["abcd$", "abc.$"] if scored else ["abCDE", "abC$"])
    with pytest.raises(DataError, match=rf"row: {8 if scored else 7} tokens, and the bound is 5"):
        make(limit=5, scored=scored, too_long="stop")(row)


def test_a_row_that_is_cut_inside_its_prompt_is_left_out():
    """Nothing of it would be learnt; `max_length` of the options goes before the model's."""
    assert make(limit=99, max_length=3, too_long="truncate")(Conversation(id="row", prompt="abcd", completion="e")) is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Conversation(id="row", completion=(user("ab"),)), "no message after the prompt is the assistant's"),
        (Conversation(id="row", prompt="ab", completion=TALK), "both text or both messages"),
        (Conversation(id="row", completion=""), "no token in it to learn"),
        (Pair(id="row", prompt=None, chosen=TALK, rejected=TALK), "do not differ at their end"),
        (Pair(id="row", prompt=None, chosen=TALK, rejected=(user("x"), assistant("y"))), "begin with different messages"),
    ],
)
def test_rows_that_are_none_are_refused_by_name(row, message):
    """One line with the row's id."""
    with pytest.raises(DataError, match=f"^row: .*{message}"):
        make()(row)


def test_messages_without_a_template_are_refused():
    """The mend is a template, or text."""
    encoder = make()
    encoder.tokenizer.chat_template = None

    with pytest.raises(DataError, match="the tokenizer has no chat template"):
        encoder(Conversation(id="row", completion=TALK))


WORDS = st.text("abc x)", max_size=5)


@given(turns=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), template=st.sampled_from([CHATML, FORGETFUL, None]))
@settings(deadline=None, max_examples=40)
def test_the_ids_before_an_answer_are_those_of_its_prompt(turns, template):
    """The model learns the last answer behind exactly the ids that it is asked with."""
    talk = tuple(message for asked, said in turns for message in (user(asked), assistant(said or "a")))
    encoder = make(template, train_on="last")
    (one,) = encoder(Conversation(id="row", completion=talk))
    asked = encoder.tokenizer.apply_chat_template(list(talk[:-1]), tokenize=True, add_generation_prompt=True)["input_ids"]

    assert list(one.tokens[: len(asked)]) == asked
    assert list(one.learnt[1:]) == [index >= len(asked) for index in range(1, len(one.tokens))]
    assert one.tokens[-1] == encoder.eos


def merging_tokenizer():
    """One token for each character, and one for two line breaks that meet."""
    import tokenizers
    import transformers

    vocabulary = {token: index for index, token in enumerate(["<pad>", "<eos>", *"[abu", "\n", "\n\n"])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges=[("\n", "\n")]))
    inner.decoder = tokenizers.decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '[' + m['role'][0] + '\n' + m['content'] }}<eos>{% endfor %}"
        "{% if add_generation_prompt %}{{ '[a\n' }}{% endif %}"
    )
    return tokenizer


def test_no_token_spans_the_beginning_of_an_answer():
    """A tokenizer merges the template's line break with that of the answer; a policy that is asked never sees this merge."""
    tokenizer = merging_tokenizer()
    encoder = Encoder(tokenizer, EncodingConfig(), max_length=None)
    talk = (user("a"), assistant("\nb"))
    (one,) = encoder(Conversation(id="row", completion=talk))
    asked = tokenizer.apply_chat_template(list(talk[:1]), tokenize=True, add_generation_prompt=True)["input_ids"]
    rendered = tokenizer.apply_chat_template(list(talk), tokenize=True)["input_ids"]

    assert list(one.tokens[: len(asked)]) == asked
    assert [token for token, learnt in zip(one.tokens, one.learnt, strict=True) if learnt] == tokenizer.encode("\nb<eos>")
    assert rendered[: len(asked)] != asked
