"""Makes a model directory small enough for tests: a Llama configuration and a tokenizer, without weights.

``python -m bench.tiny_model DIR`` writes it, or leaves a complete one as it is. Serve it with ``--load-format dummy``.
Belongs here: the shape of the tiny model and how its files are written. Never: a download, weights, or anything about
how the model is served.

The token ids are laid out so that an emulated engine can answer in readable text: the special tokens come first, then
the 94 printable ASCII characters one token each (``FIRST_PRINTABLE_ID`` on, in code point order), then the other bytes,
then the merges.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

VOCAB_SIZE = 512
"""Size of the vocabulary, tokens: 4 special, 256 bytes, the rest merges."""
MAX_POSITIONS = 4096
"""Longest sequence the configuration allows, tokens."""
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
FIRST_PRINTABLE_ID = len(SPECIAL_TOKENS)
"""Id of ``!``; the id of a printable ASCII character ``c`` is this plus ``ord(c) - 33``."""
PRINTABLE_COUNT = 94

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)

_CORPUS = (
    "A governor measures the speed of an engine and works its throttle so that the speed holds when the load changes.",
    "The first ones were two heavy balls on a spindle: the faster the shaft turned, the further out the balls swung.",
    "When the balls rose they pulled a lever, the lever closed a valve, and the engine slowed to where it should be.",
    "A queue that grows without end is a promise that nobody can keep; it is kinder to say no early than to be late.",
    "Requests arrive in bursts, wait for a place in the batch, fill the cache with their keys and values, and leave.",
    "A short question should not wait behind a long document, and a long document should not be forgotten for ever.",
    "The cache remembers the beginnings that many prompts share, and what is asked for again is worth keeping longer.",
    "Whoever turns a knob should write down why, look again after a while, and turn it back when nothing got better.",
    "One number seldom tells the truth: a busy machine may be idle, and a full memory may have room for many more.",
    "Numbers to count with: zero one two three four five six seven eight nine ten eleven twelve twenty fifty hundred.",
)


def tiny_model(directory: str | os.PathLike[str], write_config: Callable[[Path], None] | None = None) -> Path:
    """Returns ``directory`` holding a complete tiny model, writing it first when it is not there.

    ``write_config`` writes the ``config.json`` of another architecture into the folder it is given.
    Safe to call from several processes at once: the files are made beside the directory and moved into place.
    Raises ``FileExistsError`` when the directory exists and holds something else.
    """
    target = Path(directory).resolve()
    if _is_complete(target):
        return target
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"cannot write a tiny model to {target}: it exists, is not empty and is not a tiny model")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _write_tokenizer(scratch)
        (write_config or _write_config)(scratch)
        scratch.chmod(0o755)
        try:
            scratch.replace(target)
        except OSError:  # another process was quicker
            if not _is_complete(target):
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _is_complete(directory: Path) -> bool:
    return all((directory / name).is_file() for name in ("config.json", "tokenizer.json", "tokenizer_config.json"))


def _write_config(directory: Path) -> None:
    from transformers import LlamaConfig

    config = LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=VOCAB_SIZE,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_POSITIONS,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    config.dtype = "float32"
    config.save_pretrained(directory)


def _write_tokenizer(directory: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(_CORPUS, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(directory)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: one argument, the directory. Prints its absolute path and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.tiny_model", description="Write a tiny model for tests.")
    parser.add_argument("directory", help="where to write it; a complete one is left as it is")
    try:
        print(tiny_model(parser.parse_args(argv).directory))
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
