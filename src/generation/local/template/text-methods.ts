// String methods. Methods of Markup escape the strings passed to them, and return Markup.
import { bind, count, positional } from './arguments.js';
import { braceFormat } from './brace-format.js';
import { isPlain, lengthOf } from './code-points.js';
import { escapeHtml } from './html.js';
import { items } from './iterate.js';
import { piecesSteps, searchSteps } from './limits.js';
import type { Method, Run } from './run.js';
import { capitalized, isTitle, swappedCase, titled } from './text-case.js';
import {
  Bytes,
  Dict,
  Markup,
  TemplateFault,
  Tuple,
  isInteger,
  textOf,
  typeName,
  type Arguments,
  type Value,
} from './values.js';
import { lastWords, lines, trimEnd, trimStart, words } from './white-space.js';

/** Creates a string method that takes no arguments. */
const plain =
  (name: string, result: (text: string, run: Run) => Value, steps = 1): Method =>
  (run, self, args) => {
    positional(name, args, 0);
    const text = textOf(self) as string;
    run.spend(1 + Math.ceil((text.length * steps) / 32));
    return result(text, run);
  };

/** Creates a string method that takes arguments. */
const given =
  (work: (run: Run, text: string, args: Arguments) => Value): Method =>
  (run, self, args) => {
    const text = textOf(self) as string;
    run.spendText(text.length);
    return work(run, text, args);
  };

/** Creates a method that returns whether a text is not empty and all of its characters satisfy a condition. */
const every = (name: string, fits: RegExp): Method => plain(name, (text) => fits.test(text), 4);

function argumentText(name: string, value: Value | undefined): string {
  const text = textOf(value);
  if (text === null) throw new TemplateFault(`${name}() needs a str, not ${typeName(value ?? null)}`);
  return text;
}

/** Removes characters, or white space if none are given, from one or both ends. */
export function stripped(run: Run, text: string, characters: string | null, ends: 'both' | 'left' | 'right'): string {
  run.spendText(text.length);
  if (characters === null) {
    const left = ends === 'right' ? text : trimStart(text);
    return ends === 'left' ? left : trimEnd(left);
  }
  run.spend(characters.length);
  const removed = new Set(characters);
  if (!isPlain(text)) run.spend(text.length);
  const all = isPlain(text) ? text : Array.from(text);
  let start = 0;
  let end = all.length;
  if (ends !== 'right') while (start < end && removed.has(all[start] as string)) start++;
  if (ends !== 'left') while (end > start && removed.has(all[end - 1] as string)) end--;
  return typeof all === 'string' ? all.slice(start, end) : all.slice(start, end).join('');
}

const strip = (name: string, ends: 'both' | 'left' | 'right'): Method =>
  given((run, text, args) => {
    const [characters = null] = positional(name, args, 1);
    return stripped(run, text, characters === null ? null : argumentText(name, characters), ends);
  });

/** `limit`: maximum number of replacements; negative = no limit. */
export function replaced(run: Run, text: string, old: string, by: string, limit: number): string {
  run.spend(old === '' ? text.length : searchSteps(text.length, old.length));
  const parts = old === '' ? ['', ...text, ''] : text.split(old);
  const times = limit < 0 ? parts.length - 1 : Math.min(limit, parts.length - 1);
  run.spend(piecesSteps(old === '' ? parts.length : times, by.length));
  if (times === parts.length - 1) return parts.join(by);
  return [...parts.slice(0, times), parts.slice(times).join(old)].join(by);
}

function split(run: Run, text: string, args: Arguments): Value[] {
  const [separator = null, most] = bind('split', args, ['sep', 'maxsplit']);
  const limit = count('split', most, -1);
  if (separator === null) return charged(run, words(text, limit));
  const parts = splitAt(run, text, argumentText('split', separator));
  if (limit < 0 || parts.length <= limit + 1) return parts;
  return [...parts.slice(0, limit), parts.slice(limit).join(textOf(separator) as string)];
}

function rsplit(run: Run, text: string, args: Arguments): Value[] {
  const [separator = null, most] = bind('rsplit', args, ['sep', 'maxsplit']);
  const limit = count('rsplit', most, -1);
  if (separator === null) return charged(run, limit < 0 ? words(text, -1) : lastWords(text, limit));
  const parts = splitAt(run, text, argumentText('rsplit', separator));
  if (limit < 0 || parts.length <= limit + 1) return parts;
  const from = parts.length - limit;
  return [parts.slice(0, from).join(textOf(separator) as string), ...parts.slice(from)];
}

function splitAt(run: Run, text: string, separator: string): string[] {
  if (separator === '') throw new TemplateFault('empty separator');
  run.spend(searchSteps(text.length, separator.length));
  return charged(run, text.split(separator));
}

function charged(run: Run, parts: string[]): string[] {
  run.spend(4 * parts.length);
  return parts;
}

/**
 * Returns the part of a text that the start and end arguments of find(), startswith() and similar methods select, and
 * its start index.
 */
function selected(
  run: Run,
  text: string,
  start: Value | undefined,
  stop: Value | undefined,
): { part: string; from: number } | null {
  const length = lengthOf(text);
  const place = (value: Value | undefined, fallback: number): number => {
    if (value === undefined || value === null) return fallback;
    if (!isInteger(value)) throw new TemplateFault('slice indices must be integers or None');
    const index = Number(value);
    return index < 0 ? Math.max(0, index + length) : index;
  };
  const from = place(start, 0);
  const to = Math.min(length, place(stop, length));
  if (from > length || from > to) return null;
  if (from === 0 && to === length) return { part: text, from };
  if (!isPlain(text)) run.spend(text.length);
  return { part: isPlain(text) ? text.slice(from, to) : Array.from(text).slice(from, to).join(''), from };
}

const affix = (name: 'startswith' | 'endswith'): Method =>
  given((run, text, args) => {
    const [sought = null, start, stop] = positional(name, args, 3, 1);
    const found = selected(run, text, start, stop);
    const options = sought instanceof Tuple ? sought.items : [sought];
    return options.some((one) => {
      const option = argumentText(name, one);
      run.spendText(option.length);
      return found !== null && (name === 'startswith' ? found.part.startsWith(option) : found.part.endsWith(option));
    });
  });

const search = (name: 'find' | 'rfind' | 'index' | 'rindex'): Method =>
  given((run, text, args) => {
    const [sought = null, start, stop] = positional(name, args, 3, 1);
    const option = argumentText(name, sought);
    run.spend(searchSteps(text.length, option.length));
    const found = selected(run, text, start, stop);
    const at = found === null ? -1 : name.startsWith('r') ? found.part.lastIndexOf(option) : found.part.indexOf(option);
    if (at === -1 && name.endsWith('index')) throw new TemplateFault('substring not found');
    return found === null || at === -1 ? -1 : found.from + lengthOf(found.part.slice(0, at));
  });

const partition = (name: 'partition' | 'rpartition'): Method =>
  given((run, text, args) => {
    const separator = argumentText(name, positional(name, args, 1, 1)[0]);
    if (separator === '') throw new TemplateFault('empty separator');
    run.spend(searchSteps(text.length, separator.length));
    const at = name === 'partition' ? text.indexOf(separator) : text.lastIndexOf(separator);
    if (at === -1) return new Tuple(name === 'partition' ? [text, '', ''] : ['', '', text]);
    return new Tuple([text.slice(0, at), separator, text.slice(at + separator.length)]);
  });

/** Pads a text to a width. */
export function justified(
  run: Run,
  text: string,
  width: number,
  how: 'ljust' | 'rjust' | 'center',
  fill = ' ',
): string {
  const missing = width - lengthOf(text);
  if (missing <= 0) return text;
  run.spend(piecesSteps(missing, 1));
  if (how === 'ljust') return text + fill.repeat(missing);
  if (how === 'rjust') return fill.repeat(missing) + text;
  const left = (missing >> 1) + (missing & width & 1);
  return fill.repeat(left) + text + fill.repeat(missing - left);
}

const justify = (how: 'ljust' | 'rjust' | 'center'): Method =>
  given((run, text, args) => {
    const [width, fill = ' '] = positional(how, args, 2, 1);
    const character = argumentText(how, fill);
    if (lengthOf(character) !== 1) throw new TemplateFault('the fill character must be exactly one character long');
    return justified(run, text, count(how, width, 0), how, character);
  });

function join(run: Run, text: string, args: Arguments): Value {
  const parts: string[] = [];
  for (const item of items(run, positional('join', args, 1, 1)[0] as Value)) {
    const part = textOf(item);
    if (part === null)
      throw new TemplateFault(`sequence item ${parts.length}: expected str instance, ${typeName(item)} found`);
    run.spend(piecesSteps(1, text.length + part.length));
    parts.push(part);
  }
  return parts.join(text);
}

function zfill(run: Run, text: string, args: Arguments): string {
  const width = count('zfill', positional('zfill', args, 1, 1)[0], 0);
  const missing = width - lengthOf(text);
  if (missing <= 0) return text;
  run.spend(piecesSteps(1, missing));
  const sign = /^[+-]/.exec(text)?.[0] ?? '';
  return sign + '0'.repeat(missing) + text.slice(sign.length);
}

function expandTabs(run: Run, text: string, args: Arguments): string {
  const [size] = bind('expandtabs', args, ['tabsize']);
  const width = count('expandtabs', size, 8);
  run.spend(text.length);
  let column = 0;
  let result = '';
  for (const character of text) {
    if (character === '\t') {
      const spaces = width > 0 ? width - (column % width) : 0;
      run.spend(piecesSteps(1, spaces));
      result += ' '.repeat(spaces);
      column += spaces;
    } else {
      result += character;
      column = character === '\n' || character === '\r' ? 0 : column + 1;
    }
  }
  return result;
}

function translate(run: Run, text: string, args: Arguments): string {
  const table = positional('translate', args, 1, 1)[0] as Value;
  if (!(table instanceof Dict)) throw new TemplateFault('translate() needs a dict');
  run.spend(text.length);
  let result = '';
  for (const character of text) {
    const by = table.get(character.codePointAt(0) as number);
    if (by === null) continue;
    const part =
      by === undefined ? character : typeof by === 'number' ? String.fromCodePoint(by) : argumentText('translate', by);
    run.spendText(part.length);
    result += part;
  }
  return result;
}

export function isUpper(text: string): boolean {
  return /[\p{Uppercase}]/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
}

export function isLower(text: string): boolean {
  return /[\p{Lowercase}]/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
}

export const TEXT_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['upper', plain('upper', (text) => text.toUpperCase())],
  ['lower', plain('lower', (text) => text.toLowerCase())],
  ['casefold', plain('casefold', (text) => text.toLowerCase().replaceAll('ß', 'ss').replaceAll('ς', 'σ'))],
  ['swapcase', plain('swapcase', swappedCase, 32)],
  ['title', plain('title', titled, 32)],
  ['capitalize', plain('capitalize', capitalized)],
  ['strip', strip('strip', 'both')],
  ['lstrip', strip('lstrip', 'left')],
  ['rstrip', strip('rstrip', 'right')],
  ['split', given(split)],
  ['rsplit', given(rsplit)],
  [
    'splitlines',
    given((run, text, args) => {
      const [keep = false] = bind('splitlines', args, ['keepends']);
      return charged(run, lines(text, keep !== false && keep !== null && keep !== 0));
    }),
  ],
  ['startswith', affix('startswith')],
  ['endswith', affix('endswith')],
  ['find', search('find')],
  ['rfind', search('rfind')],
  ['index', search('index')],
  ['rindex', search('rindex')],
  [
    'count',
    given((run, text, args) => {
      const [sought = null, start, stop] = positional('count', args, 3, 1);
      const option = argumentText('count', sought);
      run.spend(searchSteps(text.length, option.length));
      const found = selected(run, text, start, stop);
      if (found === null) return 0;
      return option === '' ? lengthOf(found.part) + 1 : charged(run, found.part.split(option)).length - 1;
    }),
  ],
  [
    'replace',
    given((run, text, args) => {
      const [old = null, by = null, limit] = bind('replace', args, ['old', 'new', 'count'], 2);
      return replaced(
        run,
        text,
        argumentText('replace', old),
        argumentText('replace', by),
        count('replace', limit, -1),
      );
    }),
  ],
  ['join', given(join)],
  ['partition', partition('partition')],
  ['rpartition', partition('rpartition')],
  ['ljust', justify('ljust')],
  ['rjust', justify('rjust')],
  ['center', justify('center')],
  ['zfill', given(zfill)],
  ['expandtabs', given(expandTabs)],
  ['translate', given(translate)],
  [
    'removeprefix',
    given((_run, text, args) => {
      const prefix = argumentText('removeprefix', positional('removeprefix', args, 1, 1)[0]);
      return text.startsWith(prefix) ? text.slice(prefix.length) : text;
    }),
  ],
  [
    'removesuffix',
    given((_run, text, args) => {
      const suffix = argumentText('removesuffix', positional('removesuffix', args, 1, 1)[0]);
      return suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
    }),
  ],
  ['format', given((run, text, args) => braceFormat(run, text, args))],
  [
    'format_map',
    given((run, text, args) => {
      const map = positional('format_map', args, 1, 1)[0] as Value;
      if (!(map instanceof Dict)) throw new TemplateFault('format_map() needs a dict');
      const named = new Map<string, Value>();
      for (const [key, value] of map.entries()) if (typeof key === 'string') named.set(key, value);
      return braceFormat(run, text, { positional: [], named });
    }),
  ],
  [
    'encode',
    given((_run, text, args) => {
      bind('encode', args, ['encoding', 'errors']);
      return new Bytes(new TextEncoder().encode(text));
    }),
  ],
  ['isalpha', every('isalpha', /^\p{L}+$/u)],
  ['isalnum', every('isalnum', /^[\p{L}\p{N}]+$/u)],
  ['isascii', plain('isascii', (text) => /^[\0-\x7f]*$/.test(text))],
  ['isdecimal', every('isdecimal', /^\p{Nd}+$/u)],
  ['isdigit', every('isdigit', /^[\p{Nd}²³¹⁰⁴-⁹₀-₉①-⑨⑴-⑼⒈-⒐]+$/u)],
  ['isnumeric', every('isnumeric', /^\p{N}+$/u)],
  ['isspace', plain('isspace', (text) => text !== '' && trimStart(text) === '')],
  ['isidentifier', every('isidentifier', /^[\p{ID_Start}_]\p{ID_Continue}*$/u)],
  ['isprintable', plain('isprintable', (text) => !/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u.test(text), 4)],
  ['isupper', plain('isupper', isUpper, 4)],
  ['islower', plain('islower', isLower, 4)],
  ['istitle', plain('istitle', isTitle, 32)],
]);

/** Methods whose arguments are not escaped. */
const UNESCAPED: ReadonlySet<string> = new Set([
  'startswith',
  'endswith',
  'find',
  'rfind',
  'index',
  'rindex',
  'count',
  'encode',
]);

export const MARKUP_METHODS: ReadonlyMap<string, Method> = new Map(
  [...TEXT_METHODS].map(([name, method]) => [
    name,
    (run, self, args) => asMarkup(method(run, self, UNESCAPED.has(name) ? args : escaped(run, args))),
  ]),
);

function escaped(run: Run, { positional: values, named }: Arguments): Arguments {
  const escape = (value: Value): Value => {
    if (typeof value === 'string') return escapeHtml(run, value);
    return Array.isArray(value) ? value.map(escape) : value;
  };
  return {
    positional: values.map(escape),
    named: named === null ? null : new Map([...named].map(([name, value]) => [name, escape(value)])),
  };
}

function asMarkup(value: Value): Value {
  if (typeof value === 'string') return new Markup(value);
  if (Array.isArray(value)) return value.map(asMarkup);
  return value instanceof Tuple ? new Tuple(value.items.map(asMarkup)) : value;
}
