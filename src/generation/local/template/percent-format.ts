// Implements Python's '...' % values.
import { firstCharacters } from './code-points.js';
import { exponential, fixed, general, MAX_PRECISION, MAX_WIDTH } from './number-format.js';
import { piecesSteps } from './limits.js';
import { repr, str } from './print.js';
import type { Run } from './run.js';
import { Dict, Float, Range, TemplateFault, Tuple, Undefined, isInteger, typeName, type Value } from './values.js';

const FIELD = /%(?:\(((?:[^()]|\([^()]*\))*)\))?([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?([^])?/g;

/** Throws TemplateFault if a value is missing, left over or of the wrong type. */
export function percentFormat(run: Run, format: string, values: Value): string {
  return new PercentFormat(run, values).format(format);
}

interface Field {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | null;
  readonly conversion: string;
}

class PercentFormat {
  readonly #list: readonly Value[];
  #used = 0;
  #named = false;

  constructor(
    private readonly run: Run,
    private readonly values: Value,
  ) {
    this.#list = values instanceof Tuple ? values.items : [values];
  }

  format(format: string): string {
    this.run.spendText(format.length);
    const result = format.replace(FIELD, (...match: (string | undefined)[]) => this.#field(match));
    if (this.#used < this.#list.length && !this.#named && !isSubscriptable(this.values))
      throw new TemplateFault('not all arguments converted during string formatting');
    return result;
  }

  #field([, name, flags = '', width, precision, conversion]: readonly (string | undefined)[]): string {
    if (conversion === undefined) throw new TemplateFault('incomplete format');
    const field: Field = {
      flags,
      width: this.#size(width, MAX_WIDTH) ?? 0,
      precision: precision === undefined ? null : (this.#size(precision, MAX_PRECISION) ?? 0),
      conversion,
    };
    if (conversion === '%') return '%';
    const text = this.#padded(this.#written(name === undefined ? this.#next() : this.#member(name), field), field);
    this.run.spend(1 + piecesSteps(1, text.length));
    return text;
  }

  #size(given: string | undefined, most: number): number | null {
    if (given === undefined || given === '') return null;
    const size = given === '*' ? this.#next() : Number(given);
    if (typeof size !== 'number' || Math.abs(size) > most)
      throw new TemplateFault(`a width or precision is not a number up to ${most}`);
    return size;
  }

  #next(): Value {
    const value = this.#list[this.#used++];
    if (value === undefined) throw new TemplateFault('not enough arguments for format string');
    return value;
  }

  #member(name: string): Value {
    if (!(this.values instanceof Dict)) throw new TemplateFault('format requires a mapping');
    this.#named = true;
    const value = this.values.get(name);
    if (value === undefined) throw new TemplateFault(`the mapping to format has no key '${name}'`);
    return value;
  }

  #written(value: Value, { flags, precision, conversion }: Field): string {
    switch (conversion) {
      case 's':
      case 'r':
      case 'a': {
        const text = conversion === 's' ? str(this.run, value) : repr(this.run, value);
        return precision === null ? text : firstCharacters(text, precision);
      }
      case 'c':
        return this.#character(value);
      case 'd':
      case 'i':
      case 'u':
        return signed(this.#integer(value, conversion, true), flags, 10, precision);
      case 'x':
      case 'X':
      case 'o': {
        const text = signed(this.#integer(value, conversion, false), flags, conversion === 'o' ? 8 : 16, precision);
        return conversion === 'X' ? text.toUpperCase() : text;
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return this.#float(value, conversion, flags, precision ?? 6);
      default:
        throw new TemplateFault(`unsupported format character '${conversion}'`);
    }
  }

  #character(value: Value): string {
    if (typeof value === 'string' && Array.from(value).length === 1) return value;
    if (typeof value === 'number' && value >= 0 && value <= 0x10ffff) return String.fromCodePoint(value);
    throw new TemplateFault('%c requires int or char');
  }

  #integer(value: Value, conversion: string, floats: boolean): bigint {
    if (isInteger(value)) return BigInt(value);
    if (floats && value instanceof Float && Number.isFinite(value.value)) return BigInt(Math.trunc(value.value));
    throw new TemplateFault(
      `%${conversion} format: ${floats ? 'a real number' : 'an integer'} is required, not ${typeName(value)}`,
    );
  }

  #float(value: Value, conversion: string, flags: string, precision: number): string {
    if (!isInteger(value) && !(value instanceof Float))
      throw new TemplateFault(`must be real number, not ${typeName(value)}`);
    const number = Number(value instanceof Float ? value.value : value);
    const kind = conversion.toLowerCase();
    const write = kind === 'f' ? fixed : kind === 'e' ? exponential : general;
    const text = withSign(write(number, precision, { alternate: flags.includes('#') }), flags);
    return conversion === kind ? text : text.toUpperCase();
  }

  #padded(text: string, { flags, width, conversion }: Field): string {
    const missing = Math.abs(width) - text.length;
    if (missing <= 0) return text;
    this.run.spend(piecesSteps(1, missing));
    if (flags.includes('-') || width < 0) return text + ' '.repeat(missing);
    if (!flags.includes('0') || 'srac'.includes(conversion)) return ' '.repeat(missing) + text;
    const [, lead = '', digits = ''] = /^([-+ ]?(?:0[xXoO])?)([^]*)$/.exec(text) ?? [];
    return lead + '0'.repeat(missing) + digits;
  }
}

/** Python treats such a value as a mapping, and a format need not use all items of a mapping. */
function isSubscriptable(values: Value): boolean {
  return Array.isArray(values) || [Dict, Range, Undefined].some((kind) => values instanceof kind);
}

function signed(value: bigint, flags: string, base: 8 | 10 | 16, precision: number | null): string {
  const digits = (value < 0n ? -value : value).toString(base).padStart(precision ?? 0, '0');
  const prefix = flags.includes('#') ? { 8: '0o', 10: '', 16: '0x' }[base] : '';
  return withSign((value < 0n ? '-' : '') + prefix + digits, flags);
}

function withSign(text: string, flags: string): string {
  if (text.startsWith('-')) return text;
  return (flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '') + text;
}
