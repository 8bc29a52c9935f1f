// Implements Python's '...'.format(...): replacement fields, conversions and format specifications.
import { firstCharacters, lengthOf } from './code-points.js';
import { exponential, fixed, general, grouped, MAX_PRECISION, MAX_WIDTH } from './number-format.js';
import { piecesSteps } from './limits.js';
import { bigText, floatText, repr, str } from './print.js';
import type { Run } from './run.js';
import { Float, TemplateFault, isInteger, textOf, typeName, type Arguments, type Value } from './values.js';

/**
 * Replacement fields may be nested two deep: a field's format specification may contain fields, but the specifications
 * of those may not.
 */
const MAX_NESTING = 2;

/**
 * Throws TemplateFault if the format is malformed, a value is missing, or a format specification is invalid for its
 * value.
 */
export function braceFormat(run: Run, format: string, args: Arguments): string {
  return new BraceFormat(run, args).format(format, MAX_NESTING);
}

class BraceFormat {
  #automatic = 0; // fields without a number so far
  #manual = false;

  constructor(
    private readonly run: Run,
    private readonly args: Arguments,
  ) {}

  format(format: string, nesting: number): string {
    if (nesting === 0) throw new TemplateFault('format fields are nested too deeply');
    this.run.spend(1 + format.length);
    let text = '';
    for (let at = 0; at < format.length; ) {
      const brace = format.slice(at).search(/[{}]/);
      if (brace === -1) return text + format.slice(at);
      text += format.slice(at, at + brace);
      at += brace;
      const character = format[at] as string;
      if (format[at + 1] === character) {
        text += character;
        at += 2;
      } else {
        const end = character === '{' ? closing(format, at) : -1;
        if (end === -1) throw new TemplateFault(`single '${character}' encountered in format string`);
        text += this.#field(format.slice(at + 1, end), nesting);
        at = end + 1;
      }
    }
    return text;
  }

  #field(field: string, nesting: number): string {
    const [, path = '', conversion, specification = ''] =
      /^((?:[^[\]!:]|\[[^\]]*\])*)(?:!([^:]*))?(?::([^]*))?$/.exec(field) ??
      fail(`the format field {${field.slice(0, 40)}} is malformed`);
    const value = this.#value(path);
    const spec = specification.includes('{') ? this.format(specification, nesting - 1) : specification;
    const shown = this.#converted(value, conversion);
    const text = formatValue(this.run, shown, spec);
    this.run.spend(1 + piecesSteps(1, text.length));
    return text;
  }

  #value(path: string): Value {
    const [first = ''] = /^[^.[]*/.exec(path) ?? [];
    let value = this.#argument(first);
    let rest = path.slice(first.length);
    while (rest !== '') {
      const [whole, attribute, item] =
        /^(?:\.([^.[]+)|\[([^\]]+)\])/.exec(rest) ?? fail('empty attribute in format string');
      if (attribute !== undefined) value = this.run.language.getAttribute(this.run, value, attribute);
      else
        value = this.run.language.getItem(
          this.run,
          value,
          /^\d+$/.test(item as string) ? Number(item) : (item as string),
        );
      rest = rest.slice((whole as string).length);
    }
    return value;
  }

  #argument(name: string): Value {
    const { positional, named } = this.args;
    if (name !== '' && !/^\d+$/.test(name))
      return named?.get(name) ?? missing(`no argument is named '${name}'`, named?.has(name));
    if (name === '' ? this.#manual : this.#automatic > 0)
      throw new TemplateFault('format fields are numbered both by hand and automatically');
    if (name !== '') this.#manual = true;
    const index = name === '' ? this.#automatic++ : Number(name);
    return positional[index] ?? missing(`no argument for field ${index}`, index < positional.length);
  }

  #converted(value: Value, conversion: string | undefined): Value {
    if (conversion === undefined) return value;
    if (conversion === 's') return str(this.run, value);
    if (conversion === 'r' || conversion === 'a') return repr(this.run, value);
    throw new TemplateFault(`unknown conversion specifier '${conversion}'`);
  }
}

/** None is also a value. */
function missing(reason: string, present: boolean | undefined): null {
  if (present !== true) throw new TemplateFault(reason);
  return null;
}

function fail(reason: string): never {
  throw new TemplateFault(reason);
}

/** The position of the brace that closes the one at `start`, or -1. */
function closing(format: string, start: number): number {
  let depth = 0;
  for (let at = start; at < format.length; at++) {
    if (format[at] === '{') depth++;
    else if (format[at] === '}' && --depth === 0) return at;
  }
  return -1;
}

const SPECIFICATION = /^(?:([^])?([<>=^]))?([-+ ])?(z)?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$/u;

interface Specification {
  readonly fill: string;
  readonly align: string | undefined;
  readonly sign: string;
  readonly signed: boolean;
  readonly alternate: boolean;
  readonly width: number;
  readonly group: string | undefined;
  readonly precision: number | undefined;
  readonly type: string | undefined;
}

function parseSpecification(text: string): Specification {
  const match = SPECIFICATION.exec(text);
  if (match === null) throw new TemplateFault(`invalid format specifier '${text.slice(0, 40)}'`);
  const [, fill, align, sign, , alternate, zero, width, group, precision, type] = match;
  if (Number(width ?? 0) > MAX_WIDTH || Number(precision ?? 0) > MAX_WIDTH)
    throw new TemplateFault(`a width or precision is more than ${MAX_WIDTH}`);
  return {
    fill: fill ?? (zero === undefined ? ' ' : '0'),
    align: align ?? (zero === undefined ? undefined : 'zero'),
    sign: sign ?? '-',
    signed: sign !== undefined,
    alternate: alternate !== undefined,
    width: Number(width ?? 0),
    group,
    precision: precision === undefined ? undefined : Number(precision),
    type,
  };
}

/** Implements Python's format(). */
function formatValue(run: Run, value: Value, specification: string): string {
  if (specification === '') return str(run, value);
  const spec = parseSpecification(specification);
  if (typeof value === 'boolean' && spec.type === undefined && spec.width === 0) return str(run, value);
  if (isInteger(value)) return ofInteger(run, value, spec);
  if (value instanceof Float) return aligned(run, ofFloat(value.value, spec), spec, '>');
  const text = textOf(value);
  if (text === null) throw new TemplateFault(`unsupported format string passed to ${typeName(value)}.__format__`);
  if (spec.type !== undefined && spec.type !== 's')
    throw new TemplateFault(`unknown format code '${spec.type}' for object of type 'str'`);
  if (spec.signed || spec.alternate || spec.align === '=' || spec.group !== undefined)
    throw new TemplateFault(`the format specifier '${specification.slice(0, 40)}' does not apply to a str`);
  const cut = spec.precision === undefined ? text : firstCharacters(text, spec.precision);
  return aligned(run, { sign: '', prefix: '', digits: cut }, spec, '<');
}

interface Written {
  readonly sign: string;
  readonly prefix: string;
  readonly digits: string;
}

function ofInteger(run: Run, value: number | bigint | boolean, spec: Specification): string {
  const { type = 'd', alternate } = spec;
  if ('eEfFgG%'.includes(type)) return aligned(run, ofFloat(Number(value), spec), spec, '>');
  if (spec.precision !== undefined) throw new TemplateFault('a precision is not allowed for an int');
  const number = BigInt(value);
  if (type === 'c' && !(number >= 0n && number <= 0x10ffffn)) throw new TemplateFault('%c arg not in range(0x110000)');
  if (type === 'c')
    return aligned(run, { sign: '', prefix: '', digits: String.fromCodePoint(Number(number)) }, spec, '<');
  const bases: Readonly<Record<string, readonly [8 | 2 | 10 | 16, string]>> = {
    d: [10, ''],
    n: [10, ''],
    b: [2, '0b'],
    o: [8, '0o'],
    x: [16, '0x'],
    X: [16, '0X'],
  };
  const [base, prefix] = bases[type] ?? fail(`unknown format code '${type}' for object of type 'int'`);
  const magnitude = number < 0n ? -number : number;
  let digits = base === 10 ? bigText(run, magnitude) : magnitude.toString(base);
  if (type === 'X') digits = digits.toUpperCase();
  if (spec.group !== undefined) digits = grouped(digits, spec.group, base === 10 ? 3 : 4);
  return aligned(run, { sign: signOf(number < 0n, spec), prefix: alternate ? prefix : '', digits }, spec, '>');
}

function ofFloat(value: number, spec: Specification): Written {
  const { type, precision = 6, alternate } = spec;
  if (precision > MAX_PRECISION) throw new TemplateFault(`a precision is more than ${MAX_PRECISION}`);
  const magnitude = Math.abs(value);
  let digits: string;
  if (type === undefined)
    digits =
      spec.precision === undefined ? floatText(magnitude) : withPoint(general(magnitude, precision, { shorter: true }));
  else if (type === '%') digits = `${fixed(magnitude * 100, precision)}%`;
  else {
    const write = { f: fixed, e: exponential, g: general, n: general }[type.toLowerCase()];
    if (write === undefined) throw new TemplateFault(`unknown format code '${type}' for object of type 'float'`);
    digits = write(magnitude, precision, { alternate });
    if (type !== type.toLowerCase()) digits = digits.toUpperCase();
  }
  if (spec.group !== undefined) digits = digits.replace(/^\d+/, (whole) => grouped(whole, spec.group as string));
  return { sign: signOf(value < 0 || Object.is(value, -0), spec), prefix: '', digits };
}

/** A float without a type character is written with at least one digit after the point. */
function withPoint(digits: string): string {
  return /[.einf]/.test(digits) ? digits : `${digits}.0`;
}

function signOf(negative: boolean, { sign }: Specification): string {
  return negative ? '-' : sign === '-' ? '' : sign;
}

function aligned(run: Run, { sign, prefix, digits }: Written, spec: Specification, usual: '<' | '>'): string {
  const text = sign + prefix + digits;
  const missingWidth = spec.width - lengthOf(text);
  if (missingWidth <= 0) return text;
  run.spend(piecesSteps(1, missingWidth));
  const pad = (count: number): string => spec.fill.repeat(count);
  switch (spec.align === 'zero' ? (usual === '>' ? '=' : usual) : (spec.align ?? usual)) {
    case '<':
      return text + pad(missingWidth);
    case '^':
      return pad(missingWidth >> 1) + text + pad(missingWidth - (missingWidth >> 1));
    case '=':
      return sign + prefix + pad(missingWidth) + digits;
    default:
      return pad(missingWidth) + text;
  }
}
