// The complete contract of the native addon, typed once. Everything the addon checks or throws is stated
// here; nothing else in src/ touches the addon but the files beside this one.
//
// Every function throws a TypeError that names the argument when one is of the wrong type or out of
// range, and an Error with `code` set to one of NativeErrorCode for everything else.

export type NativeErrorCode =
  | 'io'
  | 'invalid_file'
  | 'unsupported'
  | 'invalid_argument'
  | 'out_of_memory'
  | 'queue_full'
  | 'too_long'
  | 'closed'
  | 'internal';

export type Quantize = 'q8_0' | 'q6_k' | 'q4_k' | 'q4_0' | 'fp8'; // fp8: CUDA devices only

export interface LoadOptions {
  threads: number; // 0 = one per core
  device: string; // 'auto' (a GPU if there is one) | 'cpu' | 'cuda' (the first GPU) | 'cuda:N'
  isa: string; // 'auto' | 'plain' | 'avx2' | 'avx512' | 'neon' | 'neon_i8mm'
  arithmetic: 'production' | 'exact';
  batchInvariant?: boolean; // false: a GPU may compute a row in another way where other rows are beside it; absent = true
  cublaslt?: string; // with batchInvariant false: 'auto' (where it is installed) or the library's path; absent = not used
  kvType: 'f16' | 'f32' | 'q8_0' | 'fp8';
  quantize?: Quantize; // store matrices of F32, F16 and BF16 so, while loading; absent = as they are
  draftPath?: string; // a smaller model of the same vocabulary that guesses; not loaded with speculation 'off'; absent = none
  draftQuantize?: Quantize; // as `quantize`, for that one
  visionPath?: string; // a GGUF file of the model's vision tower and projector ("mmproj"), or a folder that has them; absent = images are not seen
  visionOptional?: boolean; // one that does not fit the model is left out, and NativeEngine.visionProblem says why; absent = refused
  visionMaxPixels?: number; // of a picture as it was sent; absent = 2 ** 27
  visionMaxTiles?: number; // of a picture; 0 or absent = as the tower's file has it
  visionResize?: 'llama.cpp' | 'original'; // whose way of making pieces of a picture; absent = the makers' for a folder where it is computed, else llama.cpp's
  visionPrecision?: 'fast' | 'exact'; // of weights in 16 bits; absent = fast
  embeddingBytes?: number; // rows of images kept for the next time, and as much again of requests under way; absent = 256 MiB
  maxContext: number; // 0 = the file's own, as far as memory allows
  kvBytes: number; // budget of the page pool in bytes; 0 = room for a few full contexts
  maxBatchTokens: number; // of a step; 0 = as suits the device
  maxSequences: number;
  stepMs: number; // pause a prompt may put between two tokens of a running answer, aimed at; 0 = no bound
  queueMax: number; // requests waiting
  queueMaxTokens: number; // tokens of their prompts; one prompt may always wait
  prefixCache: boolean;
  snapshotTokens?: number; // of models with recurrent state: how far apart a prompt leaves snapshots of it; absent = 1024
  profile?: boolean; // note what each operation of a step costs, for NativeEngine.profile(); absent = no
  speculation: 'off' | 'auto' | 'always'; // auto: guesses where they pay, as measured; always: whatever they cost
  mtp?: 'off' | 'auto' | 'always'; // the same of the model's own layer that guesses, where its file has one; off: it is not loaded; absent = auto
}

/** Everything a file says about itself, and what loading it would allocate (from the allocating code). */
export interface Inspection {
  fileBytes: number;
  fileHash: string; // 16 hex digits over metadata, tensor infos and data (samples of it beyond 64 MiB): identifies weights
  metadata: { key: string; type: string; value: string | number | boolean | null; count: number }[]; // arrays: value null, count set
  tensors: { name: string; type: string; shape: number[]; bytes: number }[];
  model: ModelInfo | null; // null if this build cannot run it; `reason` says why
  reason: string | null;
  plan: MemoryPlan | null;
  vision: InspectedVision | null; // null: no LoadOptions.visionPath
}

export interface InspectedVision {
  projector: string;
  weightBytes: number;
  workBytes: number;
  imageTokens: { width: number; height: number; tokens: number }[]; // of some usual sizes
  problem: string | null; // why it does not fit the model
}

/** Bytes. `claimed`: of those available, what loaded and loading models have planned and not used yet. */
export interface MachineMemory {
  total: number;
  available: number;
  claimed: number;
}

/** What a load allocates, at most: pages of keys and values become memory when they are first used. Every 16 tokens take `fullPages` pages, and of the last `window` tokens of a request `windowPages` more. */
export interface MemoryPlan {
  weightBytes: number;
  kvBytes: number;
  activationBytes: number;
  kvStartBytes: number; // of kvBytes, taken by the load; the rest becomes memory as pages are first used
  guessWeightBytes: number; // of weightBytes, those of the layer that guesses tokens; 0: there is none, or it is left out
  hugeBytes: number; // of a loaded model's weights, those in pages of 2 MiB; 0: not known
  pageBytes: number; // keys and values of 16 tokens in all layers, or in as many as share a page
  pages: number;
  slotBytes: number; // recurrent state of one sequence, or of one snapshot; 0: the model has none
  slots: number;
  context: number; // tokens a request may have
  fullPages: number; // 0 where all layers have a window
  windowPages: number; // 0 where none has
  window: number; // of layers that see the last tokens only; 0: there are none
  pagesFilled: number; // share of the pages' bytes that layers keep something in; the rest lies idle
}

export interface ModelInfo {
  architecture: string;
  name: string | null;
  parameters: number;
  contextLength: number; // of the file
  guessLayers: number; // of the file, behind the others: multi-token prediction
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  embedding: number;
  feedForward: number; // of each expert where there are any
  experts: number;
  usedExperts: number; // of a layer, and of these for each token; 0: none
  vocabulary: number;
  quantization: string; // the type most weights have: 'Q8_0', 'Q4_K', ...
  chatTemplate: string | null;
  bos: string | null;
  eos: string | null; // spellings
  endOfGeneration: number[];
  specialTokens: string[]; // spellings of control tokens, and of user-defined tokens that begin with '<' or '['
}

/** What becomes of a picture of some size. */
export interface PlannedImage {
  readonly tokens: number; // that it takes of the prompt: rows of embeddings, and the markers around them
  readonly columns: number; // of tiles; 1 x 1: it is seen in one piece; 0 x 0: and that counts as an overview
  readonly rows: number;
  readonly pieces: readonly ImagePiece[]; // in the order in which the model reads them
}

export interface ImagePiece {
  readonly part: 'image' | 'tile' | 'overview'; // all of it and nothing else; a part; all of it beside the tiles
  readonly row: number;
  readonly column: number; // of a tile, from 1; else 0
  readonly width: number;
  readonly height: number; // pixels that the tower sees
  readonly tokens: number; // rows of embeddings
}

/** A picture cut and resized for one engine's tower: another engine's is a TypeError. Any number of requests share one. */
export interface NativeImage extends PlannedImage {
  readonly bytes: number; // of memory
}

export interface SubmitOptions {
  prompt: Int32Array;
  /** Where pictures stand: before the token at `at`, in ascending order; several may stand at one place. Absent = none. */
  images?: { at: number; image: NativeImage }[];
  organization: number; // its number, 32-bit
  n: number;
  maxTokens: number; // per choice: at least 1 where tokens are wanted, else 0
  output?: 'tokens' | 'logprobs' | 'vector' | 'nothing'; // absent: tokens; logprobs: the prompt's alone; nothing: the prompt goes to the prefix cache; vector is refused
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  repetitionPenalty: number;
  frequencyPenalty: number;
  presencePenalty: number;
  seed: bigint; // any 64-bit value
  logitBias: { token: number; bias: number }[];
  topLogprobs: number; // -1 = no logprobs
  promptLogprobs?: number; // the same of the prompt's tokens, 'prompt' events; not with images; absent = -1
  minTokens?: number; // so many come before one that ends the answer, or a stop string; a grammar outranks it; absent = 0
  returnTokens?: boolean; // with 'tokens' events; absent = false
  stop: string[];
  stopTokens: number[];
  ignoreEos: boolean;
  prefixCache: boolean;
  queueWaitMs: number;
  generationMs: number;
  /**
   * Markers of reasoning and calls that are single tokens are sampled only where they mean something: what opens the
   * reasoning before any content (and not with a budget of 0), what closes it or a call within that. Absent: false.
   */
  markersInPlace?: boolean;
  /** The answer ends as `repetition` where one run of up to 64 tokens stands so often in a row, 16 tokens at least; 0 or absent: never. */
  maxRepeats?: number;
  reasoning: {
    open: string;
    close: string; // '' = none
    startsInside: boolean;
    continued?: boolean; // the prompt holds some of the section's text: line breaks that come first are part of it
    budget: number; // -1 = unlimited
    closeText: string; // what the engine writes when the budget is used up, e.g. '\n</think>\n\n'
  } | null;
  calls?: CallOptions | null; // absent or null: no tool calls
  /**
   * The content is one of this grammar's texts: after the reasoning if there is any, or, with calls that are
   * neither forbidden nor required, either such a text or a call. The end of the turn is sampled only where the
   * text may end, and taken without sampling where nothing can follow. Absent or null: free.
   */
  format?: NativeGrammar | null;
  /**
   * What stands before the format's text where that has a header as calls have, at most 256 bytes: the engine writes it, or
   * a call's beginning, when the content begins; where they part it samples. Absent or '': none.
   */
  formatHead?: string;
}

/** A compiled grammar, of one engine: another engine's is a TypeError. Any number of requests share one. */
export interface NativeGrammar {
  readonly bytes: number; // of memory, without the masks its states get while it is used
  /**
   * For tests: what may follow `text`, byte by byte (special tokens are symbols that begin with 0xff;
   * the suffix is part of the text). Null if no text begins so, or past the limits.
   */
  follow(text: Uint8Array): { bytes: Uint8Array; accepts: boolean } | null;
}

/** What a text has to be. compileGrammar() reads the member its kind needs and no other of the four. */
export interface GrammarOptions {
  kind: 'json_schema' | 'json_object' | 'json' | 'regex' | 'choice' | 'grammar'; // json: any JSON value
  schema?: string; // json_schema: its JSON text, at most 1 MiB
  pattern?: string; // regex: what the whole text matches; 1 byte to 64 KiB
  choices?: string[]; // choice: the text is one of these, none of them empty; at most 4,096, 1 MiB together
  grammar?: string; // grammar: rules in GBNF, of whose root the whole text is one; 1 byte to 256 KiB, refused above 64 KiB
  suffix?: string; // literal text that follows the value: what ends a tool call; special tokens' spellings
  // are those tokens; at most 1,024 bytes
  lead?: {
    // what the model makes up before the value: so many digits, or digits and letters, and a literal
    letters: boolean;
    least: number;
    most: number; // from 1 to 64
    close: string; // at most 1,024 bytes; special tokens as in the suffix
  };
  /**
   * How an object is written that is no JSON text: json_schema alone, and for the outermost object, whose schema has that
   * type. nameOpen NAME textOpen|jsonOpen VALUE valueClose, and the separator before another. Texts of at most 256 bytes.
   */
  spelling?: {
    nameOpen: string;
    textOpen: string; // not empty
    jsonOpen: string; // where it is not the same, each value may come as a string or as JSON, by its schema
    valueClose: string;
    separator: string; // one of them not empty
    textEnd: string; // in no string that stands as it is
    stringMark: string; // around strings within JSON, which then stand as they are; '' = quotation marks
    nested: boolean; // objects within are written so too, in braces
    /**
     * Objects within are members too, without braces, and arrays are members of this name; a member ends with valueClose NAME
     * jsonOpen. What a value may be is for its schema to say, not for kinds. Absent or '': they are JSON.
     */
    item?: string;
    python: boolean; // members that are true, false or null begin with a capital letter: True, False, None
    kinds: { name: string; kind: ValueKind }[]; // what members' values are
    others: ValueKind; // of names that are not listed
  };
  strict: boolean; // a keyword that is not served: refuse, or leave it out and report it
  oneOfAsAnyOf: boolean; // oneOf whose branches are not shown to be disjoint is read as anyOf
  order: 'schema' | 'any'; // of an object's properties
  whiteSpace: 'none' | 'flexible' | 'within'; // within: none before the value
}

/** Any JSON value; a string as it stands; that, or null. */
export type ValueKind = 'json' | 'text' | 'nullable';

export interface GrammarProblem {
  /** invalid: not a schema or not an expression. too_large: more memory, time or steps than a compilation gets. impossible: no text matches. */
  kind: 'invalid' | 'unsupported' | 'too_large' | 'impossible';
  pointer: string; // JSON pointer into the schema, '' = its root
  keyword: string; // '' = none in particular
  what: string;
}

/** Not strict: a grammar may come with problems of kind `unsupported`, which say what it leaves out. */
/** `compileMs`: a thread's time that this took; 0 if it was known. */
export interface CompiledGrammar {
  grammar: NativeGrammar | null;
  problems: GrammarProblem[];
  compileMs: number;
}

/**
 * Tool calls within the content. From the open marker up to and including the close marker the text goes to
 * section 'tool', as the tokens spell it: marker spellings and control tokens' spellings included, no stop
 * string applied, no logprobs. A marker is one token if the vocabulary has a control or user-defined token
 * so spelled (then only that token counts), else its spelling in the text.
 */
export interface CallOptions {
  open: string; // e.g. '<tool_call>'; 1 to 256 bytes
  close: string; // '' = the section lasts to the end of the turn
  /** The open marker counts only as the first thing of the content; white space before it then goes with the section. */
  atStart: boolean;
  /**
   * Texts one of which must follow the open marker, e.g. '\n{"name": "a", "arguments":': what they agree in is
   * written by the engine, where they part it samples. After every open marker that is a token; a spelled one
   * when `required`, and where a token ends with it. [] = free. At most 128 of 1 to 1024 bytes.
   */
  prefixes: string[];
  /**
   * Parallel to `prefixes`, or absent: what follows a call's prefix, up to and including the close marker, which
   * is the end of the grammar's suffix. Null: free. It holds wherever the engine sees to the prefix; for an open
   * marker that is no token that is where the call is `required`, comes instead of the format, follows another
   * by a grammar, or where a token ends with the marker. A call whose grammar has ended is followed by the end of the turn or another call (with `atStart`
   * or without a close marker by the end of the turn at once); one without, by anything.
   */
  grammars?: (NativeGrammar | null)[];
  /**
   * Of a section that holds several calls: what another begins with behind the end of a grammar, the entry i by grammar
   * i modulo their number, and what ends the section, close marker included. With an end, no grammar's suffix has it.
   */
  next?: string[];
  end?: string;
  /** What follows the open marker where the content has a header that begins as calls do: with it the section ends. Absent: nothing. */
  answer?: string;
  /** Without a close marker: a section ends with its grammar all the same, and the turn goes on as behind a close marker. */
  endsItself?: boolean;
  /** The content begins with a call: the engine writes the open marker and a prefix, after the reasoning if there is any. */
  required: boolean;
  /** No call is possible: a marker that is a token is never sampled, no section told apart. Excludes `required`. */
  forbidden: boolean;
}

export interface NativeStats {
  waiting: number;
  running: number;
  waitingTokens: number; // of the prompts of those that wait
  pagesTotal: number;
  pagesFree: number;
  pagesCached: number;
  kvUsedBytes: number; // memory of pages that were ever used; on a GPU all of them
  lastStepAgeMs: number;
  maxBatchTokens: number;
  maxSequences: number;
  failed: boolean;
  note: string; // what an operator should know of how it runs by now; empty: nothing
  stepMs: number;
  queueMax: number;
  queueMaxTokens: number;
  loadedBatchTokens: number; // maxBatchTokens when it was loaded
  mostBatchTokens: number;
  mostSequences: number; // allocated: what configure() clamps to
  steps: number;
  stepRows: number;
  prefillTokens: number;
  decodeTokens: number;
  cachedTokens: number;
  imagePieces: number;
  imagePiecesCached: number; // of images, computed by the tower; found among those kept
  promptTokens: number;
  promptTokensCached: number; // of requests begun; of these, found in the prefix cache
  guessedTokens: number;
  guessedRight: number; // computed beside next tokens; of these, kept
  requests: number;
  finished: number;
  failedRequests: number;
  preemptions: number;
  cancelledQueued: number;
  cancelledPrefill: number;
  cancelledDecode: number;
  stepSeconds: number;
}

/** Sums over all calls of one operation of the forward pass. */
export interface OpFigures {
  name: string; // products with their shape, 'matmul 2048 x 2560'
  calls: number;
  nanoseconds: number;
  bytes: number; // that must come from memory at least once
  operations: number; // multiplications and additions of its products
}

/** Settings that may change while an engine runs; absent ones stay as they are. 1 to 65536, 4096, 0 to 60000, 1 to 1e6, 1 to 1e9. */
export interface NativeTunables {
  maxBatchTokens?: number;
  maxSequences?: number;
  stepMs?: number;
  queueMax?: number;
  queueMaxTokens?: number;
}

export interface TokenizeOptions {
  addSpecial: boolean;
  parseSpecial: boolean;
  guard: number;
}

export interface NativeChannel {
  submit(options: SubmitOptions): number;
  cancel(request: number): void;
  /**
   * Ends one choice as end_of_turn before its next step, or instead of its first token; what was held back of
   * its text and its finished record follow. Unknown or ended: nothing.
   */
  finish(request: number, choice: number): void;
  close(): void; // cancels what this channel submitted; no events afterwards
}

export interface NativeEngine {
  readonly info: ModelInfo;
  readonly backend: { name: string; isa: string; threads: number };
  readonly plan: MemoryPlan;
  readonly fileHash: string;
  readonly maxContext: number;
  /** What sees for it; null: nothing does. */
  readonly vision: { readonly projector: string; readonly mostTokens: number } | null;
  /** Why the tower it was given is left out; null: it is not, or there was none. */
  readonly visionProblem: string | null;
  /**
   * What a picture of this size becomes, without looking at one. `low`: as few tokens as the model allows.
   * Throws `invalid_argument` if no piece can hold such sides, `unsupported` without a tower.
   */
  planImage(width: number, height: number, low: boolean): PlannedImage;
  /** The same of a picture: 8 bits each of red, green and blue, row by row. Off the event loop; `pixels` stay as they are until then. */
  prepareImage(pixels: Uint8Array, width: number, height: number, low: boolean): Promise<NativeImage>;
  /**
   * `onEvents` gets one packed buffer (native/engine/events.h) per step, on this thread, and how long ago the first
   * event in it came about, in milliseconds. The buffer is the callee's.
   */
  open(onEvents: (events: Uint8Array, ageMs: number) => void): NativeChannel;
  tokenize(text: string, options: TokenizeOptions): Int32Array;
  tokenizeAsync(text: string, options: TokenizeOptions): Promise<Int32Array>; // off the event loop, for long texts
  tokenBytes(token: number): Uint8Array;
  findToken(spelling: string): number; // -1 if none
  /**
   * Compiles off the event loop, within bounds of memory, work and time; what was compiled lately is kept. A
   * grammar that cannot be is no rejection: `grammar` is null and `problems` say why.
   */
  compileGrammar(options: GrammarOptions): Promise<CompiledGrammar>;
  detokenize(tokens: Int32Array): string; // all tokens rendered, special ones too
  stats(): NativeStats;
  /** What each operation has cost since the start; null unless LoadOptions.profile. For benches. */
  profile(): OpFigures[] | null;
  configure(tunables: NativeTunables): void; // from the next step or submission on, clamped to what was allocated
  drain(): void;
  close(): Promise<void>; // this handle; the engine stops when its last handle is closed
}

export interface DebugLogits {
  tokens: number[];
  positions: { position: number; logits: Float32Array }[];
  continuation: { tokens: number[]; logits: number[]; last: { position: number; logits: Float32Array } } | null;
}

/** A decoded picture: red, green and blue of 8 bits, row by row without gaps. */
export interface RgbImage {
  width: number;
  height: number;
  pixels: Uint8Array;
}

export interface DebugVisionTokens {
  position: number; // of the position counter before it
  tokens: Int32Array;
}

export interface DebugVisionPiece {
  position: number;
  tokens?: undefined;
  image: number;
  part: 'image' | 'tile' | 'overview';
  row: number; // of a tile, from 1; else 0
  column: number;
  width: number; // pixels that the tower was given
  height: number;
  nTokens: number;
  nPositions: number;
  bidirectional: boolean;
  positions: Int32Array | null; // time, row and column of each token, where positions are three numbers
  hash: string;
  pixelsU8Sha256: string;
  pixelsF32Sha256: string;
  embeddingSize: number;
  embeddings: Uint8Array; // of float32, little-endian: [nTokens][embeddingSize]
}

export interface DebugVision {
  grids: Int32Array[]; // columns and rows of each image
  sequence: (DebugVisionTokens | DebugVisionPiece)[];
  nTokens: number;
  nPositions: number;
  continuation: { logits: Float32Array; tokens: Int32Array; margins: Float32Array; lastLogits: Float32Array } | null;
}

/** Opens a tokenizer alone, without weights (vocabulary-only files work). */
export interface NativeTokenizer {
  tokenize(text: string, options: TokenizeOptions): Int32Array;
  detokenize(tokens: Int32Array): string;
}

export interface Addon {
  readonly version: string;
  readonly isas: string[]; // what this processor can run, plainest first
  /** `path`, here and below: a GGUF file, or a Hugging Face folder, which is read as the GGUF file it would be converted to. */
  inspect(path: string, options: LoadOptions): Inspection;
  /**
   * What a GGUF file's authors recommend (its keys `general.sampling.*`), as it stands there: nothing of what is absent or no
   * number. Throws where the file cannot be read.
   */
  recommendedSampling(
    path: string,
  ): Partial<Record<'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repetition_penalty', number>>;
  /**
   * The tensors that a GGUF file's network needs, from its metadata and from which optional tensors it lists; the data
   * is not read. For tools that write models.
   */
  wantedTensors(path: string): { name: string; shape: number[]; vector: boolean }[];
  loadTokenizer(path: string): NativeTokenizer;
  /** Loads off the event loop. The same `name` in another worker thread attaches to the engine already there. */
  load(name: string, path: string, options: LoadOptions, onProgress: (fraction: number) => void): Promise<NativeEngine>;
  debugLogits(
    path: string,
    options: LoadOptions,
    ids: Int32Array,
    positions: Int32Array,
    continueTokens: number,
  ): Promise<DebugLogits>;
  /** What a pair of a text model and a vision file makes of a prompt with `<__media__>` where each image comes. */
  debugVision(
    path: string,
    visionPath: string,
    options: LoadOptions,
    prompt: string,
    images: readonly RgbImage[],
    continueTokens: number,
  ): Promise<DebugVision>;
  /**
   * Locks an open file for whoever holds this descriptor: false if another one has it. The kernel drops the lock when
   * the descriptor is closed, or with the process however it ends. `io` if the file system has no locks.
   */
  lockFile(descriptor: number): boolean;
  /** Repairs a heap overflow of the lmdb package that a full disk triggers. Once lmdb is loaded; any thread. Returns how many imports were bound. */
  guardLmdbErrors(): number;
  /** What models may count on, within the limits of this process's control groups. */
  memory(): MachineMemory;
  /** Bytes per second a plain read loop of `threads` threads reaches over a buffer of `bytes`: best of `repeats`. For benches. */
  readBandwidth(threads: number, bytes: number, repeats: number): Promise<number>;
  /** Multiplications and additions per second of the vector units, in products of bytes and of floats: best of `repeats`. For benches. */
  arithmeticPeak(isa: string, threads: number, repeats: number): Promise<{ integer8: number; float32: number }>;
}
