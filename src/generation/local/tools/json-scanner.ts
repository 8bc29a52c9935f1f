// Checks whether a text is the beginning of a JSON object. Reads character by character and keeps only the nesting. The
// accepted text is always a prefix of some valid object (RFC 8259, strict grammar). No side effects.
import { MAX_CALL_DEPTH } from '../../../shared/json-depth.js';

/** The grammar position of the next character. */
export const enum At {
  Object, // the opening brace of the top-level object
  FirstKey, // a key or the closing brace
  Key,
  Colon,
  Value,
  FirstElement, // a value or the closing bracket
  Next, // a comma or a closing bracket
  String,
  Escape,
  Hex1,
  Hex2,
  Hex3,
  Hex4,
  Minus,
  Zero,
  Integer,
  Point,
  Fraction,
  Exponent,
  ExponentSign,
  ExponentDigits,
  Literal,
  Done, // after the closing brace of the top-level object
}

const QUOTE = 0x22,
  BACKSLASH = 0x5c,
  MINUS = 0x2d,
  PLUS = 0x2b,
  POINT = 0x2e,
  ZERO = 0x30,
  COMMA = 0x2c,
  COLON = 0x3a;
const OPEN_BRACE = 0x7b,
  CLOSE_BRACE = 0x7d,
  OPEN_BRACKET = 0x5b,
  CLOSE_BRACKET = 0x5d;

export function isJsonSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= 0x39;
}

function isHex(code: number): boolean {
  return isDigit(code) || (code >= 0x41 && code <= 0x46) || (code >= 0x61 && code <= 0x66);
}

export class JsonScanner {
  at: At = At.Object;
  /** Number of open objects and arrays. */
  depth = 0;
  #inObject: boolean[] = [];
  #isKey = false;
  #literal = '';
  #literalAt = 0;

  /**
   * Reads one UTF-16 unit. Returns whether the text may continue with it; once this has returned false, the scanner
   * must not be used again.
   */
  accept(code: number): boolean {
    switch (this.at) {
      case At.Object:
        return isJsonSpace(code) || (code === OPEN_BRACE && this.#open(true));
      case At.FirstKey:
        return isJsonSpace(code) || (code === CLOSE_BRACE ? this.#close() : this.#key(code));
      case At.Key:
        return isJsonSpace(code) || this.#key(code);
      case At.Colon:
        if (code === COLON) this.at = At.Value;
        return code === COLON || isJsonSpace(code);
      case At.Value:
        return isJsonSpace(code) || this.#value(code);
      case At.FirstElement:
        return isJsonSpace(code) || (code === CLOSE_BRACKET ? this.#close() : this.#value(code));
      case At.Next:
        return this.#next(code);
      case At.String:
        if (code === QUOTE) this.at = this.#isKey ? At.Colon : At.Next;
        else if (code === BACKSLASH) this.at = At.Escape;
        return code >= 0x20;
      case At.Escape:
        if (code === 0x75) this.at = At.Hex1;
        else if ('"\\/bfnrt'.includes(String.fromCharCode(code))) this.at = At.String;
        else return false;
        return true;
      case At.Hex1:
      case At.Hex2:
      case At.Hex3:
      case At.Hex4:
        this.at = this.at === At.Hex4 ? At.String : this.at + 1;
        return isHex(code);
      case At.Literal:
        if (code !== this.#literal.charCodeAt(this.#literalAt)) return false;
        if (++this.#literalAt === this.#literal.length) this.at = At.Next;
        return true;
      case At.Done:
        return false;
      default:
        return this.#number(code);
    }
  }

  #open(object: boolean): boolean {
    if (this.depth === MAX_CALL_DEPTH) return false;
    this.#inObject[this.depth++] = object;
    this.at = object ? At.FirstKey : At.FirstElement;
    return true;
  }

  #close(): boolean {
    this.at = --this.depth === 0 ? At.Done : At.Next;
    return true;
  }

  #key(code: number): boolean {
    this.#isKey = true;
    this.at = At.String;
    return code === QUOTE;
  }

  #value(code: number): boolean {
    switch (code) {
      case QUOTE:
        this.#isKey = false;
        this.at = At.String;
        return true;
      case OPEN_BRACE:
        return this.#open(true);
      case OPEN_BRACKET:
        return this.#open(false);
      case MINUS:
        this.at = At.Minus;
        return true;
      case ZERO:
        this.at = At.Zero;
        return true;
      case 0x74:
        return this.#word('true');
      case 0x66:
        return this.#word('false');
      case 0x6e:
        return this.#word('null');
      default:
        this.at = At.Integer;
        return isDigit(code);
    }
  }

  #word(literal: string): boolean {
    this.#literal = literal;
    this.#literalAt = 1;
    this.at = At.Literal;
    return true;
  }

  #next(code: number): boolean {
    if (isJsonSpace(code)) return true;
    const object = this.#inObject[this.depth - 1] === true;
    if (code === COMMA) {
      this.at = object ? At.Key : At.Value;
      return true;
    }
    return code === (object ? CLOSE_BRACE : CLOSE_BRACKET) && this.#close();
  }

  #number(code: number): boolean {
    const digit = isDigit(code);
    switch (this.at) {
      case At.Minus:
        this.at = code === ZERO ? At.Zero : At.Integer;
        return digit;
      case At.Point:
        this.at = At.Fraction;
        return digit;
      case At.Exponent:
        this.at = digit ? At.ExponentDigits : At.ExponentSign;
        return digit || code === PLUS || code === MINUS;
      case At.ExponentSign:
        this.at = At.ExponentDigits;
        return digit;
      default: {
        // Zero, Integer, Fraction, ExponentDigits: the number may end here
        if (digit && this.at !== At.Zero) return true;
        const integer = this.at === At.Zero || this.at === At.Integer;
        if (code === POINT && integer) this.at = At.Point;
        else if ((code === 0x65 || code === 0x45) && this.at !== At.ExponentDigits) this.at = At.Exponent;
        else {
          this.at = At.Next;
          return this.#next(code);
        }
        return true;
      }
    }
  }
}
