// Turns scripts into a plan of votes: which token follows which, and what must be remembered where the last token alone
// does not determine the next one. Independent of weights and files. script-model.ts explains the whole mechanism.

/**
 * A part that is repeated without end. The pieces after it are reached only when the engine forces the reasoning to
 * end.
 */
export interface Repeat {
  readonly repeat: readonly (string | Uint8Array)[];
}

/** One token: a text, raw bytes (for characters split across tokens), or the spelling of one of `SPECIALS`. */
export type Piece = string | Uint8Array | Repeat;
export type Script = readonly Piece[];

export const CONTROLS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;
/** Reasoning and tool call markers, as user-defined tokens; real models with these markers define them the same way. */
export const MARKERS = ['<think>', '</think>', '<tool_call>', '</tool_call>'] as const;
const SPECIALS: ReadonlySet<string> = new Set([...CONTROLS, ...MARKERS]);

/** The token that ends the prompt and selects the script; `plain` selects the script without its reasoning. */
export const selector = (letter: string, plain: boolean): string => `<|script:${letter}${plain ? ':plain' : ''}|>`;

/**
 * "If `token` is at position `where`, add `weight` to the logit of `next`." 0 is the last token; 1, 2 and 4 are that
 * many tokens before it; 'anchor' is the latest anchor token.
 */
export interface Vote {
  where: 0 | 1 | 2 | 4 | 'anchor';
  token: number;
  next: number;
  weight: number;
}

export interface Plan {
  readonly spellings: readonly string[];
  /** Token types as numbered in the GGUF specification: 1 normal, 3 control, 4 user-defined. */
  readonly types: readonly number[];
  readonly votes: readonly Vote[];
  /** Tokens that identify the script, and the call within it, that is being generated. */
  readonly anchors: ReadonlySet<number>;
  /** Letters of the scripts that start with reasoning. */
  readonly thinking: readonly string[];
}

// Weights are logits. The intended next token leads by at least 20, so that sampling at temperature 1 never leaves the
// script. `SIGN`: a line feed or colon votes for every token of the kind that follows it. `OWN`: the anchor votes for
// its own script's token. Both votes combined beat the other tokens of that kind. `INSTEAD`: a vote for the substitute
// for a forbidden token, which beats `OWN` alone.
const NEXT = 140,
  AFTER_SHARED = 115,
  SIGN_DEFAULT = 70,
  SIGN = 45,
  OWN = 45,
  INSTEAD = 70;
/**
 * Penalty for single-byte tokens, so that they appear only where a script contains them or a mask allows nothing else.
 */
export const BYTE_HANDICAP = 400;
const NAME_LEAD = 25;

// Output where no script defines a continuation: after the text of a continued prompt, after reasoning that was closed
// by force, after a call's forced prefix, and where no call is allowed.
const CONTINUATION = [' and so', ' on.'];
const AFTER_CLOSE = ['Forty', '-two.'];
const ARGUMENTS = [' {"loca', 'tion": "Pa', 'ris"}}\n', '</tool_call>'];
const NO_CALL = ['I may call', ' no tool.'];

interface Node {
  token: number;
  next: Node | null;
}

export function planOf(scripts: Readonly<Record<string, Script>>): Plan {
  const spellings = [...byteCharacters, ...CONTROLS, ...MARKERS];
  const types: number[] = spellings.map((_, id) => (id < 256 ? 1 : id < 256 + CONTROLS.length ? 3 : 4));
  const ids = new Map(spellings.map((spelling, id) => [spelling, id]));
  // number of nodes per token; if there is more than one, the token alone does not determine the next one
  const uses = new Map<number, number>();

  const idOf = (spelling: string, type: number): number => {
    let id = ids.get(spelling);
    if (id === undefined) {
      ids.set(spelling, (id = spellings.length));
      spellings.push(spelling);
      types.push(type);
    }
    return id;
  };
  const special = (spelling: string): number => ids.get(spelling)!;
  const isShared = (token: number): boolean => token < 256 + SPECIALS.size || (uses.get(token) ?? 0) > 1;

  // A text that is already a token is joined with the next piece, or else with the previous one, so that most pieces
  // are unique tokens.
  const merged = (pieces: readonly (string | Uint8Array)[]): string[] => {
    const texts: string[] = [];
    for (let at = 0; at < pieces.length; at++) {
      let text = spelled(pieces[at]!);
      while (
        !SPECIALS.has(text) &&
        ids.has(text) &&
        at + 1 < pieces.length &&
        !SPECIALS.has(spelled(pieces[at + 1]!))
      ) {
        text += spelled(pieces[++at]!);
      }
      const before = texts.at(-1);
      if (!SPECIALS.has(text) && ids.has(text) && before !== undefined && !SPECIALS.has(before))
        text = texts.pop()! + text;
      if (!SPECIALS.has(text)) idOf(text, 1);
      texts.push(text);
    }
    return texts;
  };
  const chain = (pieces: readonly (string | Uint8Array)[]): Node[] => {
    const nodes = merged(pieces).map((spelling): Node => ({ token: idOf(spelling, 1), next: null }));
    nodes.forEach((node, at) => {
      node.next = nodes[at + 1] ?? null;
    });
    for (const { token } of nodes) uses.set(token, (uses.get(token) ?? 0) + 1);
    return nodes;
  };
  const build = (script: Script): Node[] => {
    const ends = typeof script.at(-1) !== 'object' || script.at(-1) instanceof Uint8Array;
    const parts: (Repeat | (string | Uint8Array)[])[] = [[]];
    for (const piece of ends ? [...script, '<|im_end|>'] : script) {
      const last = parts.at(-1);
      if (typeof piece === 'object' && 'repeat' in piece) parts.push(piece, []);
      else if (Array.isArray(last)) last.push(piece);
    }
    const nodes: Node[] = [];
    for (const part of parts) {
      const more = chain('repeat' in part ? part.repeat : part);
      const before = nodes.at(-1);
      if (before !== undefined && before.next === null) before.next = more[0] ?? null;
      if ('repeat' in part) more.at(-1)!.next = more[0]!;
      nodes.push(...more);
    }
    return nodes;
  };

  const ready = [CONTINUATION, AFTER_CLOSE, ARGUMENTS, NO_CALL].map(build);
  const [continuation, afterClose, callArguments, noCall] = ready.map((nodes) => nodes[0]!.token) as [
    number,
    number,
    number,
    number,
  ];
  const built = Object.entries(scripts).map(([letter, script]) => ({ letter, nodes: build(script) }));
  for (const { letter } of built) {
    if (!/^[A-Z]$/.test(letter)) throw new Error(`a script's name is one letter A to Z, not ${JSON.stringify(letter)}`);
  }

  const votes = new Map<string, Vote>();
  const vote = (where: Vote['where'], token: number, next: number, weight: number): void => {
    votes.set(`${where} ${token} ${next}`, {
      where,
      token,
      next,
      weight: next < 256 ? weight + BYTE_HANDICAP : weight,
    });
  };
  const follow = (token: number, next: Node | null): void => {
    if (next === null) return;
    vote(0, token, next.token, NEXT);
    if (next.token === special('<tool_call>')) vote(0, token, noCall, INSTEAD);
    if (next.token === special('<|im_end|>')) vote(0, token, continuation, INSTEAD);
    if (isShared(next.token) && next.next !== null) vote(1, token, next.next.token, AFTER_SHARED);
  };
  const followAll = (where: string, nodes: readonly Node[]): void => {
    for (const { token, next } of nodes) {
      if (!isShared(token)) follow(token, next);
      else if (next !== null && isShared(next.token) && next.next !== null && next.token !== special('<|im_end|>')) {
        throw new Error(
          `script ${where}: ${JSON.stringify(spellings[token])} and ${JSON.stringify(spellings[next.token])} both occur elsewhere; put a unique text between them`,
        );
      }
    }
  };
  const lineFeed = ids.get(spelled('\n'))!,
    colon = ids.get(spelled(':'))!;
  for (let byte = 0; byte < 256; byte++) if (byte !== lineFeed && byte !== colon) vote(0, byte, continuation, INSTEAD);
  vote(0, special('</tool_call>'), special('<|im_end|>'), SIGN); // after arguments that belong to no script
  vote(0, lineFeed, afterClose, SIGN_DEFAULT);
  vote(0, colon, callArguments, SIGN_DEFAULT);

  // The engine writes a call's head byte by byte, under a mask of the offered tools; then the script continues.
  const argumentsOf = (nodes: readonly Node[], at: number): { tool: string; first: Node } | null => {
    const head = spelled('", "arguments":');
    let text = '';
    for (let end = at + 1; end < nodes.length && nodes[end]!.token >= 256 + SPECIALS.size; end++) {
      text += spellings[nodes[end]!.token]!;
      const found = text.indexOf(head);
      if (found === -1) continue;
      const tool = /"([^"]*)$/.exec(text.slice(0, found))?.[1] ?? '';
      let rest = text.slice(found + head.length);
      let next = nodes[end]!.next;
      // If the head ends inside a piece, the rest of that piece becomes a token.
      while (next !== null && (rest === '' || ids.has(rest)) && next.token >= 256 + SPECIALS.size) {
        rest += spellings[next.token]!;
        ({ next } = next);
      }
      const first: Node = { token: idOf(rest, 1), next };
      follow(first.token, next);
      return { tool, first };
    }
    return null;
  };

  const anchors = new Set<number>();
  const calls: { anchor: number; tool: string }[] = [];
  const thinking: string[] = [];
  for (const { letter, nodes } of built) {
    followAll(letter, nodes);
    const chooser = idOf(selector(letter, false), 3);
    const plain = idOf(selector(letter, true), 3);
    const start = nodes[0]!;
    anchors.add(chooser).add(plain);
    let isFirst = true;
    for (const [at, { token }] of nodes.entries()) {
      const call = token === special('<tool_call>') ? argumentsOf(nodes, at) : null;
      if (call === null) continue;
      vote(0, colon, call.first.token, SIGN);
      const mine = [...(at > 0 ? [nodes[at - 1]!.token] : []), ...(isFirst ? [chooser, plain] : [])];
      isFirst = false;
      for (const anchor of mine) {
        anchors.add(anchor);
        vote('anchor', anchor, call.first.token, OWN);
        calls.push({ anchor, tool: call.tool });
      }
    }
    follow(chooser, start);
    if (start.token !== special('<think>')) {
      follow(plain, start);
      continue;
    }
    thinking.push(letter);
    const close = nodes.findIndex(({ token }) => token === special('</think>'));
    const answer = nodes.find(({ token }, at) => at > close && !/^[ĠĊ]+$/.test(spellings[token]!));
    if (close === -1 || answer === undefined) throw new Error(`script ${letter}: reasoning needs an end and an answer`);
    follow(plain, answer);
    // If the prompt has opened the reasoning, it ends with the selector, <think> and a line feed.
    vote(0, lineFeed, start.next!.token, SIGN);
    vote(2, chooser, start.next!.token, OWN);
    // The engine closes the reasoning with four tokens: line feed, </think>, line feed, line feed.
    vote(0, lineFeed, answer.token, SIGN);
    for (const { token } of nodes.slice(1, close)) if (!isShared(token)) vote(4, token, answer.token, OWN);
  }
  ready.forEach((nodes) => followAll('(built in)', nodes));
  for (const { anchor, tool } of calls) {
    for (const [byte, weight] of nameWeights(
      tool,
      calls.map((call) => call.tool),
    ))
      vote('anchor', anchor, ids.get(byte)!, weight - BYTE_HANDICAP);
  }
  return { spellings, types, votes: [...votes.values()], anchors, thinking };
}

/**
 * Weights of an anchor's votes for the bytes of its tool's name. With these weights, the name wins at every byte where
 * another known name differs.
 */
function nameWeights(tool: string, all: readonly string[]): Map<string, number> {
  const weights = new Map([...tool].map((byte) => [byte, NAME_LEAD]));
  for (let changed = true, rounds = 0; changed; rounds++) {
    if (rounds > 100)
      throw new Error(`tools ${all.join(', ')}: ${tool} cannot be distinguished from the others by its letters`);
    changed = false;
    for (const other of all) {
      let at = 0;
      while (at < tool.length && tool[at] === other[at]) at++;
      const wanted = (weights.get(other[at] ?? '') ?? 0) + NAME_LEAD;
      if (at >= tool.length || at >= other.length || weights.get(tool[at]!)! >= wanted) continue;
      weights.set(tool[at]!, wanted);
      changed = true;
    }
  }
  return weights;
}

/** The printable character that byte-level BPE uses for each byte. */
const byteCharacters: readonly string[] = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCodePoint(printable ? byte : next++);
  });
})();

function spelled(piece: string | Uint8Array): string {
  if (typeof piece === 'string' && SPECIALS.has(piece)) return piece;
  return [...Buffer.from(piece as string)].map((byte) => byteCharacters[byte]).join('');
}
