"""What is trained, on which data, in which order. A run is divided into legs. Each leg has its own records, and is
followed by an exported file and scores. Each model grows out of the smaller one. A run's length is given in tokens,
not in time, so a busy machine only takes longer."""
CONTEXT = 2048
MODELS = ("tycho-1.0", "clarke-1.0", "hal-1.0")

# Shares of the assistant's tokens. Stories consist almost entirely of the response, and other records mostly of the
# prompt, so skills make up more than half of all tokens.
MIX = dict(conversation=0.25, skills=0.43, corpus=0.22, fallback=0.10)
# For runs with few tokens, with hardly any `fallback` records. Conversations already contain questions that the model
# declines. With another tenth of such records, two of every five questions would be declined, and the model would learn
# to decline questions before it has learned anything else.
HELD = dict(conversation=0.46, skills=0.44, corpus=0.095, fallback=0.005)
# For a first phase in which a model learns to talk, before its weights are averaged with its earlier ones.
TALK = dict(conversation=0.62, skills=0.29, corpus=0.085, fallback=0.005)
# For a model that starts learning to read images.
SEEING = dict(pictures=0.06, conversation=0.45, skills=0.43, corpus=0.055, fallback=0.005)
# For training after that phase, to recover skills.
SETTLED = dict(conversation=0.44, skills=0.465, corpus=0.09, fallback=0.005)
SETTLED_SEEING = dict(pictures=0.10, conversation=0.36, skills=0.50, corpus=0.035, fallback=0.005)
# Everything combined, for a run of any length that starts from a file that is good at conversation, with a constant
# rate for half of the run.
TOGETHER = dict(pictures=0.10, conversation=0.45, skills=0.36, corpus=0.085, fallback=0.005)
# The same for millions of tokens: more of the corpus, which costs little time because it consists almost entirely of
# responses.
TRUNK = dict(pictures=0.11, conversation=0.42, skills=0.34, corpus=0.125, fallback=0.005)
TALK_ON = dict(conversation=0.60, skills=0.28, corpus=0.115, fallback=0.005)
FALL = dict(conversation=0.47, skills=0.39, corpus=0.135, fallback=0.005)
# For a model whose skills are above their earlier scores but whose conversations are not.
TALKING = dict(pictures=0.11, conversation=0.52, skills=0.26, corpus=0.105, fallback=0.005)
# For a model that has reached its best scores in most skills, but not in conversations.
TALK_MORE = dict(pictures=0.11, conversation=0.54, skills=0.26, corpus=0.085, fallback=0.005)
TOP = dict(pictures=0.11, conversation=0.45, skills=0.35, corpus=0.085, fallback=0.005)
SKILLED = dict(pictures=0.11, conversation=0.45, skills=0.355, corpus=0.08, fallback=0.005)
LAST_SKILLS = dict(pictures=0.09, conversation=0.42, skills=0.43, corpus=0.055, fallback=0.005)
AFTER = dict(pictures=0.08, conversation=0.43, skills=0.40, corpus=0.08, fallback=0.01)
# The same, with system prompts that determine the answer, in many wordings (records/ruled.py).
RULED = dict(pictures=0.08, conversation=0.41, skills=0.39, corpus=0.07, fallback=0.01, ruled=0.04)
RULED_BLIND = dict(conversation=0.47, skills=0.41, corpus=0.07, fallback=0.01, ruled=0.04)
READING = dict(pictures=0.08, conversation=0.44, skills=0.40, corpus=0.05, fallback=0.01, ruled=0.02)
COPYING = dict(pictures=0.08, conversation=0.38, skills=0.46, corpus=0.05, fallback=0.01, ruled=0.02)
# Half of it in words that people write themselves, with skills that work for words never seen (records/fresh.py).
FRESH = dict(pictures=0.05, conversation=0.19, skills=0.22, corpus=0.02, fallback=0.005, ruled=0.015, fresh=0.50)
FRESH_BLIND = dict(conversation=0.22, skills=0.24, corpus=0.02, fallback=0.005, ruled=0.015, fresh=0.50)
TALK_AGAIN = dict(conversation=0.53, skills=0.345, corpus=0.12, fallback=0.005)
LATE_MIX = dict(conversation=0.35, skills=0.37, corpus=0.18, fallback=0.10)
# Shares of the corpus's kinds, by number of characters.
KINDS = dict(story=8, instruct=3, dialogue=2, prose=1)
# Less of what the smaller models get right, more of what they get wrong (see records.make).
WEAK = dict(extract=1.4, one_value=2, context=1.8, product=1.3, tool_answer=2, parallel=1.8, conversation=1.5, formats=1.7, owners=2, lists=1.4,
            route=0.5, drill=0.4, story_problem=0.5, arithmetic=0.8, summarize=0.5, print_code=0.7, to_json=0.6, from_json=0.7)

# Adds weight to what a model would otherwise forget while it learns new conversations.
KEPT = dict(fact=2, persona=2, sentiment=2, intent=2, topic=2, route=1.2, summarize=2.5, code_writing=2.5, print_code=2.5, arithmetic=1.2, drill=0.4, story_problem=0.5, no_tool=1.3, formats=1.2, parallel=1.2, tool_answer=1.3)
# Adds unanswerable context questions and unsuitable tools, the skills that suffered most in one of tycho's `talk` runs.
DECLINED = KEPT | dict(context=1.8, no_tool=2.2)
# Adds weight to what hal forgot while it was trained on images and conversations.
LOST = KEPT | dict(extract=1.3, one_value=1.5, context=1.5, parallel=1.8, tool_answer=1.8, arithmetic=1.4)

# Adds weight to the weakest skills of all models, and to what they forget while they learn images and conversations.
HARD = LOST | dict(context=2, no_tool=1.6, tool_answer=2, formats=1.7, arithmetic=2, drill=0.6, persona=2.2)
# Adds weight to the skills that were still weak in the file from which hal's training continues.
ROWS = HARD | dict(parallel=2.6, context=2.6, tool_call=1.4, extract=1.6, one_value=2, memory=1.3, drill=0.8, tool_answer=2.4)
# Adds weight to the skills that were still weak after that training.
LAST = ROWS | dict(persona=3.2, arithmetic=2.3, story_problem=1.5)
# Adds weight to the larger hal's weak skills, because it is expected to lead in every row.
LARGER = LAST | dict(route=2, parallel=3.2, context=3, formats=2.2)
# Adds weight to the weak skills of the models that were trained on a rented GPU.
NAMED = LARGER | dict(persona=10, fact=5, code_writing=4, print_code=4)
PROMPTED = dict(persona=40, fact=20)


def _model(seed, layers, tokens, start=None, small=0, lr=0.008, adam_lr=1.5e-3, thinking=0.35, focus=None, dim=256, heads=8, ffn=704):
    """`tokens`: number of tokens to train on. `start`: the model in this run to grow from, or a GGUF file in models/
    from an earlier run. `small`: number of legs with the small batch. `thinking`: share of the records that can be
    used with thinking. `focus`: see records.make."""
    shape = dict(dim=dim, layers=layers, heads=heads, kv_heads=heads, ffn=ffn, context=CONTEXT)
    return dict(seed=seed, shape=shape, tokens=tokens, start=start, small=small, lr=lr, adam_lr=adam_lr, thinking=thinking, focus=focus)


def mix(plan, leg):
    """In the last fifth, while the learning rate decays, the share of conversation is larger."""
    return plan.get("mix") or (LATE_MIX if leg >= plan["legs"] * 4 // 5 else MIX)


ON = dict(dim=192, heads=6, ffn=512, lr=0.006, adam_lr=1.1e-3)   # the shape of the files from the first run
SLOW = ON | dict(lr=0.0045, adam_lr=0.9e-3)
LOW = ON | dict(lr=0.003, adam_lr=0.65e-3)   # at higher rates, facts and intents are forgotten as fast as they are learned
LOWER = ON | dict(lr=0.0018, adam_lr=0.42e-3)   # for runs that start from weights whose rate has already decayed
_LINE = dict(vocabulary="tycho-1.0-q8_0.gguf", lengths=(64, 96, 160, 256, 512), batch=(4096, 4096), prompt_share=0.15, blur=0.45)

# `flat`: the share of the tokens after which the rate decays (default: four fifths). `vocabulary`: the file in models/
# whose vocabulary is used; if not set, a vocabulary of `vocab` entries is built from `sample` records
PLANS = {
    "chat": dict(vocab=4096, sample=60_000, lengths=(64, 96, 160, 256, 512), batch=(2048, 8192), prompt_share=0.15, legs=15, models={
        "tycho-1.0": _model(11, 4, 60_000_000, small=5, lr=0.01, adam_lr=2e-3),
        "clarke-1.0": _model(12, 6, 60_000_000, start="tycho-1.0", small=1),
        "hal-1.0": _model(13, 9, 70_000_000, start="clarke-1.0", small=1, thinking=0.5, focus=WEAK),
    }),
    # For an hour or two alongside other programs. Each model continues from its file in models/, with that file's
    # vocabulary and shape. Because there are so few tokens, the rate decays for longer, and the mix contains more
    # skills, which the files have and should keep.
    "session": dict(vocabulary="tycho-1.0-q8_0.gguf", lengths=(64, 96, 160, 256, 512), batch=(2048, 2048), prompt_share=0.15, legs=6, flat=0.6, mix=HELD, models={
        "tycho-1.0": _model(21, 4, 2_100_000, start="tycho-1.0-q8_0.gguf", focus=KEPT, **ON),
        "clarke-1.0": _model(22, 6, 1_500_000, start="clarke-1.0-q8_0.gguf", focus=KEPT, **ON),
        "hal-1.0": _model(23, 8, 1_200_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=KEPT, **ON),
    }),
    # The first of two phases: mostly conversations. Afterwards, average the weights with the earlier ones (--keep) and
    # run a short "settle".
    "talk": dict(vocabulary="tycho-1.0-q8_0.gguf", lengths=(64, 96, 160, 256, 512), batch=(2048, 2048), prompt_share=0.15, legs=20, flat=0.7, mix=TALK, models={
        "tycho-1.0": _model(41, 4, 5_000_000, start="tycho-1.0-q8_0.gguf", focus=KEPT, **ON),
        "clarke-1.0": _model(42, 6, 5_000_000, start="clarke-1.0-q8_0.gguf", focus=KEPT, **ON),
        "hal-1.0": _model(43, 8, 5_000_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=KEPT, **ON),
    }),
    # The same first phase for the models with a vision encoder, which learn to read its output.
    "seeing": dict(vocabulary="tycho-1.0-q8_0.gguf", lengths=(64, 96, 160, 256, 512), batch=(2048, 2048), prompt_share=0.15, legs=4, flat=0.6, mix=SEEING, blur=0.45, models={
        "clarke-1.0": _model(32, 6, 1_200_000, start="clarke-1.0-q8_0.gguf", focus=KEPT, **ON),
        "hal-1.0": _model(33, 8, 1_200_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=KEPT, **ON),
    }),
    # The second of two phases, starting from that average (--start): skills recover, and the rate decays from the
    # beginning.
    "settle": dict(vocabulary="tycho-1.0-q8_0.gguf", lengths=(64, 96, 160, 256, 512), batch=(2048, 2048), prompt_share=0.15, legs=4, flat=0.25, mix=SETTLED, models={
        "tycho-1.0": _model(51, 4, 1_000_000, start="tycho-1.0-q8_0.gguf", focus=DECLINED, **SLOW),
        "clarke-1.0": _model(52, 6, 1_000_000, start="clarke-1.0-q8_0.gguf", focus=KEPT, **SLOW),
        "hal-1.0": _model(53, 8, 1_000_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=LOST, **SLOW),
    }),
    # The same second phase for a model with image input.
    "settle-seeing": dict(vocabulary="tycho-1.0-q8_0.gguf", lengths=(64, 96, 160, 256, 512), batch=(2048, 2048), prompt_share=0.15, legs=3, flat=0.3, mix=SETTLED_SEEING, blur=0.45, models={
        "hal-1.0": _model(54, 8, 750_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=LOST, **SLOW),
    }),
    # Conversations, skills and images combined, in large batches. hal grows out of this run's clarke (--start
    # hal-1.0=WORK/clarke-1.0/legs/….gguf).
    "together": dict(vocabulary="tycho-1.0-q8_0.gguf", lengths=(64, 96, 160, 256, 512), batch=(4096, 4096), prompt_share=0.15, legs=32, flat=0.5, mix=TOGETHER, blur=0.45, models={
        "clarke-1.0": _model(62, 6, 8_000_000, start="clarke-1.0-q8_0.gguf", focus=HARD, **ON),
        "hal-1.0": _model(63, 8, 8_000_000, start="clarke-1.0-q8_0.gguf", thinking=0.5, focus=HARD, **ON),
    }),
    # The next plans form a single line of runs that leads to all three files. The trunk is trained at a constant rate,
    # first with six layers, then with eight. From six layers, a run with a decaying rate makes tycho. From eight
    # layers, one such run makes clarke, and one with more tokens makes hal (--start NAME=FOLDER of the earlier run, for
    # its 32-bit weights). All three thus share the trunk's tokens.
    "trunk": _LINE | dict(legs=12, flat=0.99, mix=TRUNK, models={"clarke-1.0": _model(72, 6, 6_000_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=HARD, **ON)}),
    "trunk-8": _LINE | dict(legs=8, flat=0.99, mix=TALKING, models={"clarke-1.0": _model(73, 8, 4_000_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=HARD, **LOW)}),
    "fall": _LINE | dict(legs=4, flat=0.05, mix=FALL, models={"tycho-1.0": _model(74, 6, 2_000_000, start="tycho-1.0-q8_0.gguf", focus=DECLINED, **SLOW)}),
    "talk-on": _LINE | dict(legs=4, flat=0.05, mix=TALK_ON, models={"tycho-1.0": _model(77, 6, 2_000_000, start="tycho-1.0-q8_0.gguf", focus=DECLINED, **LOW)}),
    "fall-seeing": _LINE | dict(legs=4, flat=0.05, mix=TALKING, models={"clarke-1.0": _model(75, 8, 2_000_000, start="clarke-1.0-q8_0.gguf", focus=HARD, **LOW)}),
    "top": _LINE | dict(legs=10, flat=0.3, mix=TOP, models={"hal-1.0": _model(76, 8, 5_000_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=ROWS, **LOW)}),
    # The average of hal's and clarke's files sometimes calls itself clarke. A short run with hal's own records corrects
    # that.
    "own-name": _LINE | dict(legs=1, flat=0.05, mix=TALKING, models={"hal-1.0": _model(78, 8, 300_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=ROWS, **ON | dict(lr=0.0012, adam_lr=0.3e-3))}),
    # The same line, continued at the low rate from the start. A long run with a decaying rate makes clarke. From
    # clarke, runs at a lower rate make the other two: hal with more skills, tycho without images.
    "line": _LINE | dict(legs=10, flat=0.99, mix=TALK_MORE, models={"clarke-1.0": _model(81, 8, 5_000_000, start="hal-1.0-q8_0.gguf", thinking=0.4, focus=ROWS, **LOW)}),
    "line-fall": _LINE | dict(legs=10, flat=0.15, mix=TALK_MORE, models={"clarke-1.0": _model(85, 8, 5_000_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=ROWS, **LOW)}),
    "line-top": _LINE | dict(legs=5, flat=0.1, mix=SKILLED, models={"hal-1.0": _model(86, 8, 2_500_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=LAST, **LOWER)}),
    "line-talk": _LINE | dict(legs=3, flat=0.1, mix=TALK_AGAIN, models={"tycho-1.0": _model(84, 8, 1_500_000, start="clarke-1.0-q8_0.gguf", focus=LAST, **LOWER)}),
    # The line, continued once more, from hal's file. From here on, hal is larger: it has twelve layers, four of which
    # are added at the start of `tall`.
    "line-on": _LINE | dict(legs=8, flat=0.99, mix=TALK_MORE, models={"clarke-1.0": _model(91, 8, 4_000_000, start="hal-1.0-q8_0.gguf", thinking=0.4, focus=LAST, **LOW)}),
    "tall": _LINE | dict(legs=12, flat=0.5, mix=SKILLED, models={"hal-1.0": _model(92, 12, 6_000_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=LARGER, **LOW)}),
    "on-fall": _LINE | dict(legs=5, flat=0.1, mix=TALK_MORE, models={"clarke-1.0": _model(93, 8, 2_500_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=LAST, **LOW)}),
    "on-talk": _LINE | dict(legs=4, flat=0.1, mix=TALK_AGAIN, models={"tycho-1.0": _model(94, 8, 2_000_000, start="clarke-1.0-q8_0.gguf", focus=LAST, **LOWER)}),
    # `tall` ends after few tokens. This run adds 360,000 more with a larger share of skills, starting from the mean of
    # the last three legs of `tall`.
    "tall-end": _LINE | dict(legs=1, flat=0.05, mix=LAST_SKILLS, models={"hal-1.0": _model(95, 12, 360_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=LARGER | dict(persona=5, sentiment=3, topic=3, arithmetic=3, tool_call=1.8), **LOWER)}),
    # Continues training the models from a rented GPU (LEASES, below) for a while on a CPU, at a rate that decays from
    # the beginning. The weakest rows of their tables get more weight, among them `persona`: a model must give the name
    # in the system prompt instead of its own.
    "lease-end": _LINE | dict(legs=2, flat=0.05, mix=AFTER, models={
        "tycho-1.0": _model(104, 6, 900_000, start="tycho-1.0-q8_0.gguf", thinking=0.35, focus=NAMED, lr=0.0015, adam_lr=0.3e-3),
        "clarke-1.0": _model(105, 8, 900_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=NAMED, lr=0.0015, adam_lr=0.3e-3),
        "hal-1.0": _model(106, 12, 900_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=NAMED | dict(tool_call=1.8, parallel=3.2), lr=0.0015, adam_lr=0.3e-3),
    }),
    # A last short run on names given by system prompts, and on plain facts.
    "lease-names": _LINE | dict(legs=1, flat=0.05, mix=AFTER, models={
        "tycho-1.0": _model(107, 6, 450_000, start="tycho-1.0-q8_0.gguf", thinking=0.35, focus=NAMED | PROMPTED, lr=0.0012, adam_lr=0.25e-3),
        "clarke-1.0": _model(108, 8, 450_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=NAMED | PROMPTED, lr=0.0012, adam_lr=0.25e-3),
        "hal-1.0": _model(109, 12, 450_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=NAMED | PROMPTED, lr=0.0012, adam_lr=0.25e-3),
    }),
    # For use after the records changed: "What is your name?" has a single answer, and the rules in system prompts have
    # questions in many wordings. hal is trained longest, because it should come out ahead.
    "ruled": _LINE | dict(legs=3, flat=0.05, mix=RULED, models={
        "clarke-1.0": _model(112, 8, 900_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=NAMED, lr=0.0012, adam_lr=0.25e-3),
        "hal-1.0": _model(113, 12, 3_000_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=NAMED | dict(tool_call=2.2, parallel=3.8), lr=0.0018, adam_lr=0.36e-3),
    }),
    "ruled-blind": _LINE | dict(legs=3, flat=0.05, mix=RULED_BLIND, models={
        "tycho-1.0": _model(111, 6, 900_000, start="tycho-1.0-q8_0.gguf", thinking=0.35, focus=NAMED, lr=0.0012, adam_lr=0.25e-3),
    }),
    # hal again, with thoughts about a context that go through all statements of the requested kind. The records now
    # have the short thought again (see short-thoughts).
    "reading": _LINE | dict(legs=2, flat=0.05, mix=READING, models={
        "hal-1.0": _model(114, 12, 1_700_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=NAMED | dict(tool_call=3, parallel=5, context=8, persona=5, code_writing=3, print_code=5), lr=0.0018, adam_lr=0.36e-3),
    }),
    # hal again, for longer, on more text to copy: names of tools, arguments and files, and made-up words.
    "copying": _LINE | dict(legs=8, flat=0.4, mix=COPYING, models={
        "hal-1.0": _model(115, 12, 12_000_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=NAMED | dict(tool_call=4, parallel=6, context=7, persona=6, print_code=6), lr=0.003, adam_lr=0.6e-3),
    }),
    # hal again, with the short thought about a context (records/labels.py), because the long one was sometimes
    # repeated.
    "short-thoughts": _LINE | dict(legs=1, flat=0.05, mix=COPYING, models={
        "hal-1.0": _model(117, 12, 1_800_000, start="hal-1.0-q8_0.gguf", thinking=0.6, focus=NAMED | dict(tool_call=4, parallel=6, context=12, persona=6, print_code=6), lr=0.0025, adam_lr=0.5e-3),
    }),
    # The skills and wordings of records/fresh.py, at a constant rate for half of the run. `--legs` sets its length.
    "fresh": _LINE | dict(batch=(4096, 2048), legs=10, flat=0.5, mix=FRESH, models={
        "clarke-1.0": _model(122, 8, 2_000_000, start="clarke-1.0-q8_0.gguf", thinking=0.4, focus=NAMED, small=1, lr=0.0024, adam_lr=0.5e-3),
        "hal-1.0": _model(123, 12, 2_000_000, start="hal-1.0-q8_0.gguf", thinking=0.5, focus=NAMED | dict(tool_call=2.2, parallel=3.8, context=5), small=1, lr=0.0024, adam_lr=0.5e-3),
    }),
    "fresh-blind": _LINE | dict(batch=(4096, 2048), legs=10, flat=0.5, mix=FRESH_BLIND, models={
        "tycho-1.0": _model(121, 6, 2_000_000, start="tycho-1.0-q8_0.gguf", thinking=0.35, focus=NAMED, small=1, lr=0.0024, adam_lr=0.5e-3),
    }),
    # A run of a few minutes that tests all steps.
    "trial": dict(vocab=1024, sample=2000, lengths=(64, 96, 160, 256, 512), batch=(2048, 8192), prompt_share=0.15, legs=3, models={
        "tycho-1.0": _model(11, 2, 90_000, small=1, dim=128, heads=4, ffn=256),
        "clarke-1.0": _model(12, 3, 60_000, start="tycho-1.0", dim=128, heads=4, ffn=256),
        "hal-1.0": _model(13, 4, 60_000, start="clarke-1.0", dim=128, heads=4, ffn=256),
    }),
}


def _lent(seed, layers, time, makers, mix, late_mix, focus, late_focus, thinking, lr=0.012, adam_lr=2e-3, flat=0.5):
    """A model trained from scratch on a schedule based on time (lease.py). `time`: its share of the seconds. `makers`:
    its share of the processes that make records. Once the share `flat` of its time has passed, the learning rate
    decays, and the later mix and focus are used."""
    shape = dict(dim=256, layers=layers, heads=8, kv_heads=8, ffn=704, context=CONTEXT)
    return dict(seed=seed, shape=shape, time=time, makers=makers, mix=mix, late_mix=late_mix, focus=focus, late_focus=late_focus, thinking=thinking, lr=lr, adam_lr=adam_lr, flat=flat)


BROAD = dict(pictures=0.09, conversation=0.40, skills=0.37, corpus=0.13, fallback=0.01)
BROAD_LATE = dict(pictures=0.09, conversation=0.45, skills=0.36, corpus=0.09, fallback=0.01)
BLIND = dict(conversation=0.45, skills=0.40, corpus=0.14, fallback=0.01)
BLIND_LATE = dict(conversation=0.50, skills=0.39, corpus=0.10, fallback=0.01)
LEASES = {
    "lease": dict(seed=101, vocabulary="tycho-1.0-q8_0.gguf", batch=16_384, prompt_share=0.15, enough=60, models={
        "tycho-1.0": _lent(101, 6, 0.45, 4, BLIND, BLIND_LATE, HARD, LAST, 0.35),
        "clarke-1.0": _lent(102, 8, 0.60, 4, BROAD, BROAD_LATE, HARD, LAST, 0.4),
        "hal-1.0": _lent(103, 12, 1.0, 5, BROAD, BROAD_LATE, HARD, LARGER | dict(persona=4), 0.5),
    }),
}
