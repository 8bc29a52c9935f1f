"""What is trained, on what, for how long. `cpu`: two busy cores, in minutes; each model grows out of the smaller one.
`gpu`: one H200, every run within ten minutes and 60 MiB of packed tokens; the models are read first, then tuned."""
from data import MIX, PROSE

CONTEXT = 2048
MODELS = ("tycho-1.0", "clarke-1.0", "hal-1.0")


def _shape(dim, layers, heads, kv_heads, ffn):
    return dict(dim=dim, layers=layers, heads=heads, kv_heads=kv_heads, ffn=ffn, context=CONTEXT)


def _stage(made, minutes, corpus, thinking=0.35, mix=MIX, longest=1500, prompt_share=0.25, lr=0.02, adam_lr=4e-3, start=None, focus=None):
    """`made`: made records. `corpus`: characters of the corpus. `thinking`: share of the records that can be read with thinking.
    `longest`: characters of a corpus record. `start`: (model, stage) whose weights to begin with. `focus`: see records.make."""
    return dict(made=made, minutes=minutes, corpus=corpus, thinking=thinking, mix=mix, longest=longest, prompt_share=prompt_share, lr=lr, adam_lr=adam_lr, start=start, focus=focus)


_READ = dict(made=0, corpus=100_000_000, mix=PROSE, longest=4000, prompt_share=1.0)
_TUNE = dict(made=120_000, corpus=40_000_000, longest=4000, lr=0.01, adam_lr=2e-3)

# Little of the corpus: enough for the sound of stories and talk, which the made records do not have.
_CPU = dict(corpus=1_500_000, mix=dict(MIX, story=6, prose=0.5, rag=1, extract=1, classify=1, tool=1, math=1, code=1), lr=0.01, adam_lr=2e-3, prompt_share=0.15)
_CPU_LATE = dict(_CPU, lr=0.005, adam_lr=1e-3)
# What the smaller models get right goes down, what they do not goes up.
_WEAK = dict(extract=1.4, one_value=2, context=1.8, product=1.3, tool_answer=2, parallel=1.8, conversation=1.5, formats=1.7, owners=2, lists=1.4,
             route=0.5, drill=0.4, story_problem=0.5, arithmetic=0.8, summarize=0.5, fact=0.6, greet=0.6, thanks=0.6, print_code=0.7, to_json=0.6, from_json=0.7)

PLANS = {
    "cpu": dict(vocab=4096, lengths=(96, 160, 256, 512), batch=2048, models={
        "tycho-1.0": dict(seed=1, shape=_shape(192, 4, 6, 6, 512), stages={"all": _stage(130_000, 18, **dict(_CPU, corpus=3_000_000, lr=0.012, adam_lr=3e-3))}),
        "clarke-1.0": dict(seed=2, shape=_shape(192, 6, 6, 6, 512), stages={
            "all": _stage(120_000, 20, **_CPU, start=("tycho-1.0", "all")),
            "more": _stage(60_000, 14, **_CPU_LATE, start=("clarke-1.0", "all"))}),
        "hal-1.0": dict(seed=3, shape=_shape(192, 8, 6, 6, 512), stages={
            "all": _stage(100_000, 34, **dict(_CPU_LATE, lr=0.007, adam_lr=1.5e-3), thinking=0.5, focus=_WEAK, start=("clarke-1.0", "more")),
            "more": _stage(40_000, 6, **dict(_CPU_LATE, lr=0.003, adam_lr=6e-4), thinking=0.5, focus=_WEAK, start=("hal-1.0", "all"))}),
    }),
    "gpu": dict(vocab=8192, lengths=(512, 2048), batch=131_072, models={
        "tycho-1.0": dict(seed=1, shape=_shape(256, 6, 8, 4, 704), stages={"read": _stage(minutes=2, **_READ), "tune": _stage(minutes=2.5, start=("tycho-1.0", "read"), **_TUNE)}),
        "clarke-1.0": dict(seed=2, shape=_shape(384, 8, 12, 6, 1024), stages={"read": _stage(minutes=3.5, **_READ), "tune": _stage(minutes=4, start=("clarke-1.0", "read"), **_TUNE)}),
        "hal-1.0": dict(seed=3, shape=_shape(576, 9, 9, 9, 1536), stages={"read": _stage(minutes=6, **_READ), "tune": _stage(minutes=6, thinking=0.5, start=("hal-1.0", "read"), **_TUNE)}),
    }),
}
