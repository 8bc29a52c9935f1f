// Built-in filters for strings and for values of any type. A filter that transforms a string returns Markup if that
// string is Markup.
import { bind, count, isNumber, shown } from './arguments.js';
import { compareTexts, lengthOf } from './code-points.js';
import { order } from './compare.js';
import { escapeHtml, unescapeHtml, withoutTags } from './html.js';
import { items, length } from './iterate.js';
import { COMPACT, toJson, type JsonOptions } from './json.js';
import { piecesSteps } from './limits.js';
import { percentFormat } from './percent-format.js';
import { repr, str } from './print.js';
import type { Filter, Run } from './run.js';
import { capitalized } from './text-case.js';
import { justified, replaced, stripped } from './text-methods.js';
import {
  Dict,
  Markup,
  TemplateFault,
  Tuple,
  Undefined,
  isInteger,
  isTrue,
  textOf,
  typeName,
  type Value,
} from './values.js';
import { urlize } from './urlize.js';
import { SPACE, lines } from './white-space.js';
import { wrapped, wrapSteps } from './word-wrap.js';

/** Creates a filter that transforms a value's text. */
const mapping =
  (name: string, result: (text: string) => string, steps = 1): Filter =>
  (run, value, args) => {
    bind(name, args, []);
    const text = str(run, value);
    run.spend(1 + Math.ceil((text.length * steps) / 32));
    return alike(value, result(text));
  };

/** Returns the text as Markup if the value is Markup. */
function alike(value: Value, text: string): Value {
  return value instanceof Markup ? new Markup(text) : text;
}

function requiredText(what: string, value: Value): string {
  if (value instanceof Undefined) throw value.fault();
  const text = textOf(value);
  if (text === null) throw new TemplateFault(`${what}: '${typeName(value)}' is not a str`);
  return text;
}

const WORD_START = new RegExp(`([-${SPACE}({\\[<]+)`);

/** Words are separated by white space, hyphens and opening brackets, so that "it's" is one word. */
function title(text: string): string {
  return text
    .split(WORD_START)
    .map((part) => {
      const [initial = ''] = part;
      return initial.toUpperCase() + part.slice(initial.length).toLowerCase();
    })
    .join('');
}

const titleCase: Filter = (run, value, args) => {
  bind('title', args, []);
  const text = str(run, value);
  run.spend(1 + text.length);
  return title(text);
};

const trim: Filter = (run, value, args) => {
  const [characters = null] = bind('trim', args, ['chars']);
  return alike(
    value,
    stripped(run, str(run, value), characters === null ? null : requiredText('trim', characters), 'both'),
  );
};

const replace: Filter = (run, value, args) => {
  const [old = '', by = '', limit = null] = bind('replace', args, ['old', 'new', 'count'], 2);
  return replaced(run, str(run, value), str(run, old), str(run, by), limit === null ? -1 : count('replace', limit, -1));
};

const indent: Filter = (run, value, args) => {
  const [width = 4, first = false, blank = false] = bind('indent', args, ['width', 'first', 'blank']);
  const text = requiredText('indent', value);
  const size = isInteger(width) ? count('indent', width, 4) : 0;
  run.spend(piecesSteps(1, size));
  const lead = textOf(width) ?? ' '.repeat(Math.max(0, size));
  const rows = lines(`${text}\n`);
  run.spend(piecesSteps(2 * rows.length, lead.length) + (text.length >> 5));
  const [top = '', ...others] = rows;
  const rest = others.map((row) => `\n${row === '' && !isTrue(blank) ? '' : lead}${row}`);
  return alike(value, (isTrue(first) ? lead : '') + top + rest.join(''));
};

const center: Filter = (run, value, args) => {
  const [width] = bind('center', args, ['width']);
  return alike(value, justified(run, str(run, value), count('center', width, 80), 'center'));
};

const truncate: Filter = (run, value, args) => {
  const [size, killWords = false, end = '...', leeway = null] = bind('truncate', args, [
    'length',
    'killwords',
    'end',
    'leeway',
  ]);
  const ellipsis = shown(run, end, '...');
  const most = count('truncate', size, 255);
  const keep = most - lengthOf(ellipsis);
  if (keep < 0) throw new TemplateFault('truncate: the length is less than that of the end');
  if (length(run, value) <= most + (leeway === null ? 5 : count('truncate', leeway, 5))) return value;
  const text = requiredText('truncate', value);
  run.spend(text.length);
  const cut = Array.from(text).slice(0, keep).join('');
  const space = cut.lastIndexOf(' ');
  return alike(value, (isTrue(killWords) || space === -1 ? cut : cut.slice(0, space)) + ellipsis);
};

const wordWrap: Filter = (run, value, args) => {
  const [width, breakLong = true, separator = null, hyphens = true] = bind('wordwrap', args, [
    'width',
    'break_long_words',
    'wrapstring',
    'break_on_hyphens',
  ]);
  const text = requiredText('wordwrap', value);
  const options = { width: count('wordwrap', width, 79), breakLong: isTrue(breakLong), hyphens: isTrue(hyphens) };
  if (options.width <= 0) throw new TemplateFault(`invalid width ${options.width} (must be > 0)`);
  run.spend(2 * text.length + wrapSteps(text, options.width));
  const between = separator === null ? '\n' : str(run, separator);
  const rows = lines(text).map((line) => wrapped(line, options).join(between));
  run.spend(piecesSteps(text.length, between.length >> 3));
  return rows.join(between);
};

const wordCount: Filter = (run, value, args) => {
  bind('wordcount', args, []);
  const text = str(run, value);
  run.spend(text.length);
  return text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0;
};

const format: Filter = (run, value, { positional, named }) => {
  if (positional.length > 0 && named !== null && named.size > 0)
    throw new TemplateFault("can't handle positional and keyword arguments at the same time");
  if (named === null || named.size === 0) return percentFormat(run, str(run, value), new Tuple(positional));
  const dict = new Dict();
  for (const [name, item] of named) dict.set(name, item);
  return percentFormat(run, str(run, value), dict);
};

const stripTags: Filter = (run, value, args) => {
  bind('striptags', args, []);
  const text = str(run, value);
  run.spend(text.length);
  const words = withoutTags(text).split(new RegExp(`[${SPACE}]+`));
  return unescapeHtml(words.filter((word) => word !== '').join(' '));
};

function quotedUrl(run: Run, value: Value, safe: string): string {
  const text = str(run, value);
  run.spend(text.length);
  return encodeURIComponent(Buffer.from(text).toString())
    .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%2F', safe === '/' ? '/' : '%2F');
}

const urlEncode: Filter = (run, value, args) => {
  bind('urlencode', args, []);
  const text = textOf(value);
  if (text !== null || value === null || isInteger(value)) return quotedUrl(run, value, '/');
  const entry = (pair: Value): string => {
    const parts = [...items(run, pair)].map((part) => quotedUrl(run, part, '').replaceAll('%20', '+'));
    if (parts.length !== 2) throw new TemplateFault('urlencode: an element is not a pair of a key and a value');
    return parts.join('=');
  };
  const pairs = value instanceof Dict ? [...value.entries()].map((pair) => new Tuple(pair)) : [...items(run, value)];
  return pairs.map(entry).join('&');
};

const xmlAttributes: Filter = (run, value, args) => {
  const [space = true] = bind('xmlattr', args, ['autospace']);
  if (!(value instanceof Dict)) throw new TemplateFault(`xmlattr: '${typeName(value)}' is not a dict`);
  const parts: string[] = [];
  for (const [key, item] of value.entries()) {
    run.spend(4);
    if (item !== null && !(item instanceof Undefined)) parts.push(`${escapeHtml(run, key)}="${escapeHtml(run, item)}"`);
  }
  const text = (isTrue(space) && parts.length > 0 ? ' ' : '') + parts.join(' ');
  return run.autoescape ? new Markup(text) : text;
};

const escape: Filter = (run, value, args) => {
  bind('escape', args, []);
  return new Markup(escapeHtml(run, value));
};

const forceEscape: Filter = (run, value, args) => {
  bind('forceescape', args, []);
  return new Markup(escapeHtml(run, str(run, value)));
};

const safe: Filter = (run, value, args) => {
  bind('safe', args, []);
  return value instanceof Markup ? value : new Markup(str(run, value));
};

const string: Filter = (run, value, args) => {
  bind('string', args, []);
  return value instanceof Markup ? value : str(run, value);
};

const fallback: Filter = (_run, value, args) => {
  const [other = '', boolean = false] = bind('default', args, ['default_value', 'boolean']);
  return value instanceof Undefined || (isTrue(boolean) && !isTrue(value)) ? other : value;
};

const json: Filter = (run, value, args) => {
  const [ascii = false, level = null, separators = null, sort = false] = bind('tojson', args, [
    'ensure_ascii',
    'indent',
    'separators',
    'sort_keys',
  ]);
  return toJson(
    run,
    value,
    args.positional.length === 0 && args.named === null
      ? COMPACT
      : jsonOptions(run, { ascii, level, separators, sort }),
  );
};

function jsonOptions(run: Run, given: { ascii: Value; level: Value; separators: Value; sort: Value }): JsonOptions {
  const { level, separators } = given;
  const size = isInteger(level) ? Math.max(0, count('tojson', level, 0)) : 0;
  run.spend(piecesSteps(1, size));
  const indentation = level === null ? null : (textOf(level) ?? ' '.repeat(size));
  const pair = separators === null ? null : [...items(run, separators)].map((one) => str(run, one));
  if (pair !== null && pair.length !== 2) throw new TemplateFault('tojson: "separators" needs two texts');
  return {
    indent: indentation,
    itemSeparator: pair?.[0] ?? (level === null ? ', ' : ','),
    keySeparator: pair?.[1] ?? ': ',
    ascii: isTrue(given.ascii),
    sorted: isTrue(given.sort),
  };
}

/** The filter `pprint`. Unlike Python's pprint(), it writes everything on one line. */
const prettyPrint: Filter = (run, value, args) => {
  bind('pprint', args, ['verbose']);
  return repr(run, withSortedKeys(run, value));
};

function withSortedKeys(run: Run, value: Value): Value {
  if (Array.isArray(value)) return run.nested(() => value.map((item) => withSortedKeys(run, item)));
  if (!(value instanceof Dict)) return value;
  run.spend(8 * value.size);
  return run.nested(() => {
    const result = new Dict();
    for (const [key, item] of [...value.entries()].sort(([a], [b]) =>
      comparable(a, b) ? order(run, a, b) : compareTexts(typeName(a), typeName(b)),
    ))
      result.set(key, withSortedKeys(run, item));
    return result;
  });
}

function comparable(a: Value, b: Value): boolean {
  return (textOf(a) !== null && textOf(b) !== null) || (isNumber(a) && isNumber(b));
}

const links: Filter = (run, value, args) => {
  const [limit = null, noFollow = false, target = null, rel = null] = bind('urlize', args, [
    'trim_url_limit',
    'nofollow',
    'target',
    'rel',
    'extra_schemes',
  ]);
  const text = str(run, value);
  run.spend(4 * text.length);
  const rels = new Set([...(textOf(rel) ?? '').split(' '), ...(isTrue(noFollow) ? ['nofollow'] : []), 'noopener']);
  const linked = urlize(escapeHtml(run, text), {
    limit: limit === null ? null : count('urlize', limit, 0),
    rel: [...rels]
      .filter((one) => one !== '')
      .sort()
      .join(' '),
    target: textOf(target),
  });
  return run.autoescape ? new Markup(linked) : linked;
};

const random: Filter = () => {
  throw new TemplateFault('the filter "random" is not supported: a template must render the same text each time');
};

export const TEXT_FILTERS: Readonly<Record<string, Filter>> = {
  capitalize: mapping('capitalize', capitalized),
  center,
  d: fallback,
  default: fallback,
  e: escape,
  escape,
  forceescape: forceEscape,
  format,
  indent,
  lower: mapping('lower', (text) => text.toLowerCase()),
  pprint: prettyPrint,
  random,
  replace,
  safe,
  string,
  striptags: stripTags,
  title: titleCase,
  tojson: json,
  trim,
  truncate,
  upper: mapping('upper', (text) => text.toUpperCase()),
  urlencode: urlEncode,
  urlize: links,
  wordcount: wordCount,
  wordwrap: wordWrap,
  xmlattr: xmlAttributes,
};
