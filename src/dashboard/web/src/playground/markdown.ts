// Parses the Markdown of responses into tokens. Returns data, never markup, so model output cannot become part of the
// page. Works on incomplete text. The limits keep the cost of hostile input low; text beyond them is shown as received.

import { Lexer, Tokenizer } from 'marked';
import type { MarkedToken, Token, Tokens } from 'marked';

export type { MarkedToken, Token } from 'marked';

/** Maximum nesting of quotes and lists. Deeper markers are shown as text. */
const MAX_DEPTH = 16;
/**
 * Maximum number of block parser calls for one block. Each list item and each paragraph of a quote needs about one
 * call.
 */
const MAX_BLOCK_CALLS = 2_000;
/** Maximum number of characters in a block. Does not apply to fenced code, whose cost is linear. */
const MAX_BLOCK_LENGTH = 100_000;
/** Maximum number of characters in a paragraph, list item or table cell. */
const MAX_INLINE_LENGTH = 5_000;
/** Maximum number of inline delimiter characters per paragraph, list item or table cell. */
const MAX_MARKERS = 500;
/**
 * Limits the total cost of the inline parses of a block. The cost of one parse grows with the square of its length and
 * of its number of markers.
 */
const MAX_INLINE_COST = 1_000_000;
const MAX_DEFINITIONS = 200;
/** A long text is parsed in steps of this many characters. */
const STEP = 20_000;

const MARKERS = /[*_~`[\]<&\\]/g;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

export type Definitions = Lexer['tokens']['links'];

class BoundedTokenizer extends Tokenizer {
  #depth = 0;

  override blockquote(src: string): Tokens.Blockquote | undefined {
    return this.#nested(() => super.blockquote(src));
  }

  override list(src: string): Tokens.List | undefined {
    return this.#nested(() => super.list(src));
  }

  #nested<T>(parse: () => T): T | undefined {
    if (this.#depth >= MAX_DEPTH) return undefined;
    this.#depth++;
    try {
      return parse();
    } finally {
      this.#depth--;
    }
  }
}

class BoundedLexer extends Lexer {
  #calls = 0;
  #maxCalls: number;

  constructor(maxCalls: number) {
    super({ gfm: true, breaks: true, tokenizer: new BoundedTokenizer() });
    this.#maxCalls = maxCalls;
  }

  override blockTokens(src: string, tokens?: Token[], lastParagraphClipped?: boolean): Lexer['tokens'] {
    if (++this.#calls > this.#maxCalls) throw new RangeError('the text has too many parts');
    return super.blockTokens(src, tokens, lastParagraphClipped) as Lexer['tokens'];
  }

  /** Parses the text inside blocks. */
  inlines(): void {
    let cost = 0;
    for (const { src, tokens } of this.inlineQueue) {
      const markers = src.match(MARKERS)?.length ?? 0;
      const own = markers ** 2 + (src.length / 10) ** 2;
      if (markers > MAX_MARKERS || src.length > MAX_INLINE_LENGTH || cost + own > MAX_INLINE_COST)
        tokens.push({ type: 'text', raw: src, text: src } satisfies Tokens.Text);
      else {
        cost += own;
        this.inlineTokens(src, tokens);
      }
    }
    this.inlineQueue = [];
  }
}

/** Returns the tokens of one block, or null if the block must be shown as received. */
export function tokensOf(raw: string, definitions: Definitions): MarkedToken[] | null {
  if (raw.length > MAX_BLOCK_LENGTH && !FENCE.test(raw)) return null;
  try {
    const lexer = new BoundedLexer(MAX_BLOCK_CALLS);
    lexer.blockTokens(raw, lexer.tokens);
    Object.assign(lexer.tokens.links, definitions);
    lexer.inlines();
    return lexer.tokens as Token[] as MarkedToken[];
  } catch {
    return null;
  }
}

export interface Block {
  /** The Markdown source. */
  readonly raw: string;
  /** Whether the block is final. */
  readonly isDone: boolean;
  /** Whether the block is shown as received, because parsing it would take too long. */
  readonly isPlain: boolean;
}

/** Splits a growing text into top-level blocks. When the text grows, only its end is parsed again. */
export class BlockSplitter {
  #done: Block[] = [];
  #doneText = '';
  #seen = 0;
  #definitions = noDefinitions();
  /** Whether the text after `#doneText` is a single plain block. */
  #isPlain = false;

  /** `isLive`: the text may still grow. */
  update(text: string, isLive: boolean): { blocks: readonly Block[]; definitions: Definitions } {
    const source = text.replace(/\r\n?/g, '\n');
    if (!source.startsWith(this.#doneText)) {
      this.#done = [];
      this.#doneText = '';
      this.#seen = 0;
      this.#definitions = noDefinitions();
      this.#isPlain = false;
    }
    // The text is parsed in steps, so that limits apply to blocks rather than to the whole text.
    for (let end = this.#seen + STEP; end < source.length; end += STEP) this.#advance(source.slice(0, end), true);
    this.#seen = source.length;
    return this.#advance(source, isLive);
  }

  #advance(source: string, isLive: boolean): { blocks: readonly Block[]; definitions: Definitions } {
    const tail = source.slice(this.#doneText.length);
    const rest = isLive ? withoutPartialFence(tail) : tail;
    const tokens = this.#isPlain ? null : split(rest);
    this.#isPlain = tokens === null;
    if (tokens === null) {
      const plain: Block = { raw: rest, isDone: !isLive, isPlain: true };
      return { blocks: [...this.#done, plain], definitions: this.#definitions };
    }
    // Text that arrives later can still extend the last block or merge it with the previous one.
    const visible = tokens.filter(({ type }) => type !== 'space');
    const open = visible.at(-2) ?? visible[0];
    const openAt = !isLive ? tokens.length : open === undefined ? 0 : tokens.indexOf(open);
    const finished = tokens.slice(0, openAt);
    this.#define(finished);
    this.#done.push(...blocksOf(finished, true));
    this.#doneText += finished.map(({ raw }) => raw).join('');
    return { blocks: [...this.#done, ...blocksOf(tokens.slice(openAt), false)], definitions: this.#definitions };
  }

  /** Adds new definitions by creating a new object, so that callers can detect changes by comparing identity. */
  #define(tokens: readonly Source[]): void {
    const fresh = tokens.filter((token) => token.type === 'def') as Tokens.Def[];
    if (fresh.length === 0 || Object.keys(this.#definitions).length >= MAX_DEFINITIONS) return;
    this.#definitions = Object.assign(noDefinitions(), this.#definitions);
    for (const { tag, href, title } of fresh.slice(0, MAX_DEFINITIONS)) this.#definitions[tag] ??= { href, title };
  }
}

/** An object without a prototype, because its keys come from the text of the response. */
const noDefinitions = (): Definitions => Object.create(null) as Definitions;

type Source = Pick<Token, 'type' | 'raw'>;

const blocksOf = (tokens: readonly Source[], isDone: boolean): Block[] =>
  tokens.filter(({ type }) => type !== 'space' && type !== 'def').map(({ raw }) => ({ raw, isDone, isPlain: false }));

/** The text's top-level tokens, without inline tokens; null if parsing would take too long. */
function split(text: string): readonly Source[] | null {
  if (text.length > MAX_BLOCK_LENGTH && !FENCE.test(text)) return null;
  try {
    const lexer = new BoundedLexer(MAX_BLOCK_CALLS);
    lexer.blockTokens(text, lexer.tokens);
    // The next update continues after the source texts of these tokens, so these must match the response's text
    // exactly.
    const isExact = lexer.tokens.map(({ raw }) => raw).join('') === text;
    return isExact ? lexer.tokens : [{ type: 'text', raw: text }];
  } catch {
    return null;
  }
}

/** Drops a last line that may become a fence, so that it is not first shown as text. */
const withoutPartialFence = (text: string): string => text.replace(/(^|\n)[ \t]*(`{1,}|~{1,})$/, '$1');

/** Whether a code block's source ends with its closing fence. Indented code has no fence. */
export function isClosed(raw: string): boolean {
  const fence = FENCE.exec(raw)?.[1];
  if (fence === undefined) return true;
  const last = raw.trimEnd().split('\n').slice(1).at(-1)?.trim() ?? '';
  return last.length >= fence.length && last === fence.charAt(0).repeat(last.length);
}

/** A link's address, or null if it may not be opened. */
export function linkTo(href: string): string | null {
  let url: URL;
  try {
    url = new URL(withoutEntities(href));
  } catch {
    return null;
  }
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

/** Replaces the most common named character references. The parser replaces numeric ones. */
export const withoutEntities = (text: string): string =>
  text.replace(/&(amp|lt|gt|quot|apos|nbsp);/g, (_, name: string) => ENTITIES[name] ?? '');

/** The start of a JSON object, or of an array of objects. Prose rarely starts like this. */
const JSON_START = /^\s*(?:\[\s*)*\{\s*(?:"|$)/;

/**
 * If the response is a JSON object or an array of objects, or the start of one, returns the text to show as code,
 * formatted once it is complete. Otherwise, returns null.
 */
export function jsonIn(text: string): { text: string; isComplete: boolean } | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return { text: JSON.stringify(JSON.parse(text), null, 2), isComplete: true };
  } catch {
    return JSON_START.test(text) ? { text: text.trim(), isComplete: false } : null;
  }
}
