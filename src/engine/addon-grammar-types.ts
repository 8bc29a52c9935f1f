// Grammars of the native addon (addon-types.ts): the constraint on a text, and its compiled form.

/**
 * A grammar compiled for one engine. Using it with another engine throws a TypeError. Any number of requests may share
 * it.
 */
export interface NativeGrammar {
  readonly bytes: number; // memory it uses, not counting masks added to its states during use
  /**
   * For tests: the bytes that may follow `text`. A special token is returned as a symbol that starts with 0xff. The
   * suffix counts as part of the text. Null if no matching text starts with `text`, or if a limit was exceeded.
   */
  follow(text: Uint8Array): { bytes: Uint8Array; accepts: boolean } | null;
}

/**
 * Internal keywords that constrain a whole string: with a regular expression in Python's dialect, or with a Lark
 * grammar. Clients cannot set them. A schema may contain at most one of them.
 */
export const REGEX_KEYWORD = '\u0001regex',
  LARK_KEYWORD = '\u0001lark';

/**
 * The constraint on a text. compileGrammar() reads only the member that belongs to `kind`: `schema`, `pattern`,
 * `choices` or `grammar`.
 */
export interface GrammarOptions {
  kind: 'json_schema' | 'json_object' | 'json' | 'regex' | 'choice' | 'grammar' | 'lark'; // json: any JSON value
  /**
   * json_schema: the schema as JSON text, at most 1 MiB. The keywords REGEX_KEYWORD and LARK_KEYWORD constrain a string
   * to a pattern or grammar.
   */
  schema?: string;
  pattern?: string; // regex: must match the whole text; 1 byte to 64 KiB
  choices?: string[]; // choice: the text is one of these; none may be empty; at most 4,096 of them, 1 MiB in total
  // grammar: GBNF rules whose root must match the whole text; lark: a Lark grammar whose start rule must match the
  // whole text; at least 1 byte; the addon accepts up to 256 KiB, but refuses to compile more than 64 KiB
  grammar?: string;
  // text after the value, such as the end of a tool call; the spelling of a special token in it stands for that token;
  // at most 1,024 bytes
  suffix?: string;
  lead?: {
    // free text that the model writes before the value: digits, or digits and letters; it ends with the text `close`
    letters: boolean;
    least: number;
    most: number; // 1 to 64
    close: string; // at most 1,024 bytes; special tokens as in the suffix
  };
  /**
   * Notation for objects that are not written as JSON. Only for json_schema, and only for the outermost object, whose
   * schema must have the type object. A member is nameOpen NAME textOpen|jsonOpen VALUE valueClose; members are joined
   * by the separator. Each text is at most 256 bytes.
   */
  spelling?: {
    nameOpen: string;
    textOpen: string; // not empty
    // if jsonOpen differs from textOpen, the schema determines whether a value may be written as a string, as JSON, or
    // as either
    jsonOpen: string;
    valueClose: string;
    separator: string; // valueClose and separator must not both be empty
    textEnd: string; // must not occur in a verbatim string
    stringMark: string; // delimiter of verbatim strings inside JSON; '' = quotation marks
    nested: boolean; // nested objects use the same notation, in braces
    /**
     * The member name used for array items. Nested objects then use the same notation without braces, and a member ends
     * with valueClose NAME jsonOpen. The schema, not `kinds`, determines what a value may be. If absent or '', nested
     * values are JSON.
     */
    item?: string;
    python: boolean; // true, false and null are written True, False and None
    kinds: { name: string; kind: ValueKind }[]; // kinds of the members' values
    others: ValueKind; // kind of the members that are not listed
  };
  strict: boolean; // unsupported keyword: true = refuse the schema, false = ignore the keyword and report it
  oneOfAsAnyOf: boolean; // treat oneOf as anyOf if its branches are not provably disjoint
  order: 'schema' | 'any'; // order of an object's properties
  whiteSpace: 'none' | 'flexible' | 'within'; // within: none before the value
}

/** json: any JSON value; text: a verbatim string; nullable: a verbatim string or null. */
export type ValueKind = 'json' | 'text' | 'nullable';

export interface GrammarProblem {
  /**
   * invalid: not a valid schema or expression. too_large: compiling exceeds the limits on memory, time or steps.
   * impossible: no text can match.
   */
  kind: 'invalid' | 'unsupported' | 'too_large' | 'impossible';
  pointer: string; // JSON pointer into the schema, '' = its root
  keyword: string; // '' = not about a particular keyword
  what: string;
}

/**
 * If `strict` is false, a grammar may be returned together with problems of kind `unsupported`, which list the ignored
 * keywords.
 */
/** `compileMs`: thread time that compilation took; 0 if the result was cached. */
export interface CompiledGrammar {
  grammar: NativeGrammar | null;
  problems: GrammarProblem[];
  compileMs: number;
}
