// Converts values to text like Python's str() and repr().
import type { Run } from './run.js';
import {
  Bytes,
  Callable,
  Dict,
  DictView,
  Float,
  Lazy,
  Markup,
  Namespace,
  Range,
  TemplateFault,
  Tuple,
  Undefined,
  typeName,
  type Value,
} from './values.js';

/** Python's str(). */
export function str(run: Run, value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return '';
  return repr(run, value);
}

/** Python's repr(). */
export function repr(run: Run, value: Value): string {
  run.spend(1);
  if (value === null) return 'None';
  switch (typeof value) {
    case 'boolean':
      return value ? 'True' : 'False';
    case 'number':
      return String(value);
    case 'bigint':
      return bigText(run, value);
    case 'string':
      run.spendText(value.length);
      return quoted(value, run.guard);
    default:
      return run.nested(() => objectText(run, value));
  }
}

/** Maximum number of digits: Python refuses to print longer integers. */
const MAX_DIGITS = 4_300;

export function bigText(run: Run, value: bigint): string {
  const digits = value.toString(16).length; // fewer than in decimal
  if (digits > MAX_DIGITS) throw new TemplateFault(`an integer has more than ${MAX_DIGITS} digits`);
  run.spend((digits * digits) >> 8);
  return String(value);
}

function objectText(run: Run, value: Exclude<Value, null | boolean | number | bigint | string>): string {
  const list = (items: Iterable<Value>): string => {
    const texts: string[] = [];
    for (const item of items) texts.push(repr(run, item));
    return texts.join(', ');
  };
  if (Array.isArray(value)) return `[${list(value)}]`;
  if (value instanceof Dict) {
    const texts: string[] = [];
    for (const [key, item] of value.entries()) texts.push(`${repr(run, key)}: ${repr(run, item)}`);
    return `{${texts.join(', ')}}`;
  }
  if (value instanceof Tuple) return `(${list(value.items)}${value.items.length === 1 ? ',' : ''})`;
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Markup) {
    run.spendText(value.text.length);
    return `Markup(${quoted(value.text, run.guard)})`;
  }
  if (value instanceof DictView) return `${value.typeName}([${list(value)}])`;
  if (value instanceof Range) return `range(${value.start}, ${value.stop}${value.step === 1 ? '' : `, ${value.step}`})`;
  if (value instanceof Namespace) {
    const dict = new Dict();
    for (const [name, item] of value.attributes) dict.set(name, item);
    return `<Namespace ${repr(run, dict)}>`;
  }
  if (value instanceof Bytes) return bytesText(value.bytes);
  // Python also prints an address.
  if (value instanceof Callable)
    return `<${value.typeName} ${value.typeName === 'Macro' ? macroName(value) : value.name}>`;
  if (value instanceof Lazy) return `<${value.typeName} object>`;
  return `<${typeName(value)} object>`;
}

/**
 * The name with which a macro is printed. In Jinja2, the macro of a call block has no name and is printed as
 * `anonymous`.
 */
function macroName({ name }: Callable): string {
  return name === 'caller' ? 'anonymous' : quoted(name);
}

/** Writes a float with the fewest digits that identify it. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value < 0 ? '-inf' : 'inf';
  if (Object.is(value, -0)) return '-0.0';
  const [digits, exponent] = value.toExponential().split('e') as [string, string];
  const power = Number(exponent);
  if (power >= -4 && power < 16) {
    // JavaScript uses exponents only from 1e21 upward and below 1e-6.
    const text = power < -4 + 1 ? withoutExponent(digits, power) : String(value);
    return text.includes('.') ? text : `${text}.0`;
  }
  return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

/** A number from 1e-4 to 1. */
function withoutExponent(digits: string, power: number): string {
  const sign = digits.startsWith('-') ? '-' : '';
  return `${sign}0.${'0'.repeat(-power - 1)}${digits.replace(/[-.]/g, '')}`;
}

/** The characters that repr() escapes. */
const UNPRINTABLE = /[\\\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const NEEDS_ESCAPE = /[\\\p{C}\p{Zl}\p{Zp}\p{Zs}]/u;
const SHORT: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Returns the text as a Python string literal. `guard`: a character that is never escaped. */
export function quoted(text: string, guard = ''): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let escaped = text;
  if (NEEDS_ESCAPE.test(text))
    escaped = text.replace(UNPRINTABLE, (character) =>
      character === guard ? character : (SHORT[character] ?? escapeOf(character.codePointAt(0)!)),
    );
  if (quote === "'" && text.includes("'")) escaped = escaped.replaceAll("'", "\\'");
  return quote + escaped + quote;
}

function escapeOf(code: number): string {
  const hex = code.toString(16);
  return code < 0x100
    ? `\\x${hex.padStart(2, '0')}`
    : code < 0x1_0000
      ? `\\u${hex.padStart(4, '0')}`
      : `\\U${hex.padStart(8, '0')}`;
}

function bytesText(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    if (SHORT[character] !== undefined) text += SHORT[character];
    else if (byte < 0x20 || byte > 0x7e) text += `\\x${byte.toString(16).padStart(2, '0')}`;
    else text += character === "'" ? "\\'" : character;
  }
  return `b'${text}'`;
}
