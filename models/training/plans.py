"""What is trained, on what, for how long. `cpu`: two busy cores, in minutes; each model grows out of the smaller one.
`gpu`: one H200, every run within ten minutes and 60 MiB of packed tokens; the models are read first, then tuned."""
from data import MIX, PROSE

CONTEXT = 2048
MODELS = ("tycho-1.0", "clarke-1.0", "hal-1.0")


def _shape(dim, layers, heads, kv_heads, ffn):
    return dict(dim=dim, layers=layers, heads=heads, kv_heads=kv_heads, ffn=ffn, context=CONTEXT)


def _stage(made, minutes, corpus, thinking=0.35, mix=MIX, longest=1500, prompt_share=0.25, lr=0.02, adam_lr=4e-3, start=None):
    """`made`: made records. `corpus`: characters of the corpus. `thinking`: share of the records that can be read with thinking.
    `longest`: characters of a corpus record. `start`: (model, stage) whose weights to begin with."""
    return dict(made=made, minutes=minutes, corpus=corpus, thinking=thinking, mix=mix, longest=longest, prompt_share=prompt_share, lr=lr, adam_lr=adam_lr, start=start)


_READ = dict(made=0, corpus=100_000_000, mix=PROSE, longest=4000, prompt_share=1.0)
_TUNE = dict(made=120_000, corpus=40_000_000, longest=4000, lr=0.01, adam_lr=2e-3)

_CPU_TUNE = dict(corpus=1_000_000, mix=dict(MIX, story=2, prose=0.5), lr=0.01, adam_lr=1.5e-3)

PLANS = {
    "cpu": dict(vocab=3072, lengths=(96, 160, 256, 512), batch=4096, models={
        "tycho-1.0": dict(seed=1, shape=_shape(192, 4, 6, 6, 512), stages={
            "broad": _stage(50_000, 18, 7_400_000),
            "tune": _stage(40_000, 12, **_CPU_TUNE, start=("tycho-1.0", "broad"))}),
        "clarke-1.0": dict(seed=2, shape=_shape(192, 6, 6, 6, 512), stages={"tune": _stage(40_000, 14, **_CPU_TUNE, start=("tycho-1.0", "tune"))}),
        "hal-1.0": dict(seed=3, shape=_shape(192, 8, 6, 6, 512), stages={"tune": _stage(40_000, 20, **_CPU_TUNE, thinking=0.5, start=("clarke-1.0", "tune"))}),
    }),
    "gpu": dict(vocab=8192, lengths=(512, 2048), batch=131_072, models={
        "tycho-1.0": dict(seed=1, shape=_shape(256, 6, 8, 4, 704), stages={"read": _stage(minutes=2, **_READ), "tune": _stage(minutes=2.5, start=("tycho-1.0", "read"), **_TUNE)}),
        "clarke-1.0": dict(seed=2, shape=_shape(384, 8, 12, 6, 1024), stages={"read": _stage(minutes=3.5, **_READ), "tune": _stage(minutes=4, start=("clarke-1.0", "read"), **_TUNE)}),
        "hal-1.0": dict(seed=3, shape=_shape(576, 9, 9, 9, 1536), stages={"read": _stage(minutes=6, **_READ), "tune": _stage(minutes=6, thinking=0.5, start=("hal-1.0", "read"), **_TUNE)}),
    }),
}
