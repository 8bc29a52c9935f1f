// Grammars of the native addon (addon-types.ts): what text must match, and the compiled form.

/**
 * A compiled grammar of one engine. Using it with another engine throws a TypeError. Any number of requests may share
 * it.
 */
export interface NativeGrammar {
  readonly bytes: number; // memory that it uses, not counting masks added to its states during use
  /**
   * For tests: the bytes that may follow `text`. Special tokens are symbols that begin with 0xff; the suffix is part of
   * the text. Null if no text begins with `text`, or if a limit was exceeded.
   */
  follow(text: Uint8Array): { bytes: Uint8Array; accepts: boolean } | null;
}

/**
 * The constraint on a text. compileGrammar() reads only the member that belongs to `kind`: `schema`, `pattern`,
 * `choices` or `grammar`.
 */
export interface GrammarOptions {
  kind: 'json_schema' | 'json_object' | 'json' | 'regex' | 'choice' | 'grammar'; // json: any JSON value
  schema?: string; // json_schema: the schema as JSON text, at most 1 MiB
  pattern?: string; // regex: must match the whole text; 1 byte to 64 KiB
  choices?: string[]; // choice: the text is one of these; none may be empty; at most 4,096, 1 MiB together
  grammar?: string; // grammar: GBNF rules whose root must match the whole text; 1 byte to 256 KiB, refused above 64 KiB
  suffix?: string; // literal text after the value, such as the end of a tool call. Texts of special tokens
  // stand for those tokens. At most 1,024 bytes.
  lead?: {
    // free text of the model before the value: a number of digits, or digits and letters, then a literal
    letters: boolean;
    least: number;
    most: number; // 1 to 64
    close: string; // at most 1,024 bytes; special tokens as in the suffix
  };
  /**
   * Notation for objects that are not written as JSON. Only for json_schema, and for the outermost object; its schema
   * must have the type object. A member is nameOpen NAME textOpen|jsonOpen VALUE valueClose; members are joined by the
   * separator. Texts of at most 256 bytes.
   */
  spelling?: {
    nameOpen: string;
    textOpen: string; // not empty
    // if it differs from textOpen, a value may be written as a string or as JSON, depending on its schema
    jsonOpen: string;
    valueClose: string;
    separator: string; // at least one of valueClose and separator is not empty
    textEnd: string; // must not occur in a verbatim string
    stringMark: string; // delimiter of strings inside JSON, which are then verbatim; '' = quotation marks
    nested: boolean; // nested objects use the same notation, in braces
    /**
     * Nested objects use the same notation without braces, and array items are members with this name. A member ends
     * with valueClose NAME jsonOpen. The schema determines what a value may be, not `kinds`. Absent or '': nested
     * values are JSON.
     */
    item?: string;
    python: boolean; // true, false and null are written True, False and None
    kinds: { name: string; kind: ValueKind }[]; // kinds of the members' values
    others: ValueKind; // kind of members that are not listed
  };
  strict: boolean; // unsupported keyword: true = refuse the schema, false = ignore the keyword and report it
  oneOfAsAnyOf: boolean; // treat oneOf as anyOf if its branches are not provably disjoint
  order: 'schema' | 'any'; // of an object's properties
  whiteSpace: 'none' | 'flexible' | 'within'; // within: none before the value
}

/** json: any JSON value; text: a verbatim string; nullable: a verbatim string or null. */
export type ValueKind = 'json' | 'text' | 'nullable';

export interface GrammarProblem {
  /**
   * invalid: not a valid schema or expression. too_large: compiling exceeds the limits of memory, time or steps.
   * impossible: no text matches.
   */
  kind: 'invalid' | 'unsupported' | 'too_large' | 'impossible';
  pointer: string; // JSON pointer into the schema, '' = its root
  keyword: string; // '' = no particular keyword
  what: string;
}

/**
 * With `strict` false, a grammar may be returned together with problems of kind `unsupported`, which list the ignored
 * keywords.
 */
/** `compileMs`: thread time of the compilation; 0 if it was cached. */
export interface CompiledGrammar {
  grammar: NativeGrammar | null;
  problems: GrammarProblem[];
  compileMs: number;
}
