// The complete, typed interface of the native addon. All checks and errors of the addon are documented here, in
// addon-grammar-types.ts and in addon-debug-types.ts. Within src/, only the files in this directory use the addon.
//
// Every function throws a TypeError that names the argument if an argument has the wrong type or is out of range. All
// other failures are Errors with a `code` from NativeErrorCode.

import type { DebugLogits, DebugVision, RgbImage } from './addon-debug-types.js';
import type { CompiledGrammar, GrammarOptions, NativeGrammar } from './addon-grammar-types.js';

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
  isa: string; // 'auto' | 'plain' | 'avx2' | 'avx_vnni' | 'avx512' | 'amx' | 'neon' | 'neon_i8mm'
  arithmetic: 'production' | 'fast' | 'exact';
  // false: on a GPU, a token's result may depend on the other tokens in the batch; absent = true
  batchInvariant?: boolean;
  // only if batchInvariant is false: 'auto' (use cuBLASLt if it is installed) or the path to the library; absent = do
  // not use cuBLASLt
  cublaslt?: string;
  kvType: 'f16' | 'f32' | 'q8_0' | 'q5_0' | 'q4_0' | 'fp8'; // q5_0, q4_0: CPUs only; fp8: CUDA devices only
  quantize?: Quantize; // quantize F32, F16 and BF16 matrices to this type on load; absent = keep the file's types
  // draft model with the same vocabulary, for speculative decoding; not loaded if speculation is 'off'; absent = none
  draftPath?: string;
  draftQuantize?: Quantize; // like `quantize`, for the draft model
  // GGUF file with the model's vision encoder and projector ("mmproj"), or a directory that contains both; absent = no
  // image input
  visionPath?: string;
  // true: a vision encoder that does not fit the model is ignored (see NativeEngine.visionProblem); absent = an error
  visionOptional?: boolean;
  visionMaxPixels?: number; // maximum pixels per input image; absent = 2 ** 27
  visionMaxTiles?: number; // maximum tiles per image; 0 or absent = as specified in the vision encoder's file
  // image preprocessing to use; absent = the model authors' original for a Hugging Face directory if it is implemented,
  // otherwise llama.cpp's
  visionResize?: 'llama.cpp' | 'original';
  visionPrecision?: 'fast' | 'exact'; // arithmetic for 16-bit vision weights; absent = fast
  // memory for cached image embeddings; running requests may use the same amount in addition; absent = 256 MiB
  embeddingBytes?: number;
  adapterBytes?: number; // maximum bytes of all LoRA adapters together; absent = 4 GiB
  maxContext: number; // 0 = the file's context length, if memory allows, otherwise less
  kvBytes: number; // size of the page pool in bytes; 0 = enough for a few full contexts
  maxBatchTokens: number; // tokens per step; 0 = the device's default
  maxSequences: number;
  stepMs: number; // target upper bound on inter-token latency caused by other requests' prefill; 0 = no bound
  queueMax: number; // maximum number of waiting requests
  queueMaxTokens: number; // maximum prompt tokens across all waiting requests; a single prompt may always wait
  prefixCache: boolean;
  snapshotTokens?: number; // recurrent models: distance between state snapshots of a prompt, in tokens; absent = 1024
  profile?: boolean; // record the cost of each operation in a step, for NativeEngine.profile(); absent = no
  // auto: draft only where measurements show a speedup; always: draft even if it is slower
  speculation: 'off' | 'auto' | 'always';
  // like `speculation`, for the model's own multi-token-prediction layer, if the file has one; off: the layer is not
  // loaded; absent = auto
  mtp?: 'off' | 'auto' | 'always';
}

/**
 * Everything that a model file declares, and the memory that loading it would allocate, as computed by the code that
 * allocates it.
 */
export interface Inspection {
  fileBytes: number;
  // 16 hex digits that identify the weights: a hash of the metadata, the tensor infos and the data (only samples of
  // data above 64 MiB)
  fileHash: string;
  // for arrays, value is null and count is set
  metadata: { key: string; type: string; value: string | number | boolean | null; count: number }[];
  tensors: { name: string; type: string; shape: number[]; bytes: number }[];
  model: ModelInfo | null; // null if this build cannot run the model; `reason` says why
  reason: string | null;
  plan: MemoryPlan | null;
  vision: InspectedVision | null; // null without LoadOptions.visionPath
}

export interface InspectedVision {
  projector: string;
  weightBytes: number;
  workBytes: number;
  imageTokens: { width: number; height: number; tokens: number }[]; // for some common image sizes
  problem: string | null; // why it does not fit the model
}

/**
 * Memory in bytes. `claimed`: the part of `available` that models being loaded or already loaded have reserved but not
 * used yet.
 */
export interface MachineMemory {
  total: number;
  available: number;
  claimed: number;
}

/**
 * Upper bounds on the memory that loading a model allocates. KV pages take up memory only after their first use. Every
 * 16 tokens take `fullPages` pages; the last `window` tokens of a request take `windowPages` more.
 */
export interface MemoryPlan {
  weightBytes: number;
  kvBytes: number;
  activationBytes: number;
  kvStartBytes: number; // part of kvBytes that is allocated on load; the rest is allocated when pages are first used
  // part of weightBytes for the multi-token-prediction layer; 0: there is none, or it is not loaded
  draftWeightBytes: number;
  pageBytes: number; // keys and values of 16 tokens, for all layers or for those that share a page
  pages: number;
  slotBytes: number; // recurrent state of one sequence or snapshot; 0: the model has none
  slots: number;
  context: number; // maximum tokens per request
  fullPages: number; // 0 if all layers use a sliding window
  windowPages: number; // 0 if no layer uses a sliding window
  window: number; // sliding window size in tokens; 0: no layer uses one
  pagesFilled: number; // fraction of the page bytes that hold data; 1 = no padding
}

export interface ModelInfo {
  architecture: string;
  name: string | null;
  parameters: number;
  contextLength: number; // as declared in the file
  draftLayers: number; // multi-token-prediction layers in the file, which follow the regular layers
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  embedding: number;
  feedForward: number; // per expert, if the model has experts
  experts: number;
  usedExperts: number; // experts per layer, and experts used per token; 0: none
  vocabulary: number;
  quantization: string; // type of most weights: 'Q8_0', 'Q4_K', ...
  chatTemplate: string | null;
  bos: string | null;
  eos: string | null; // token texts
  endOfGeneration: number[];
  specialTokens: string[]; // texts of control tokens, and of user-defined tokens that start with '<' or '['
  embeddings: EmbeddingInfo | null; // null if the model cannot compute embeddings or scores
}

/** Embedding or scoring properties of a model. */
export interface EmbeddingInfo {
  dimensions: number; // values per text: the length of its vector, or the number of scores of a reranker
  pooling: 'mean' | 'cls' | 'last' | 'rank'; // rank: the result holds scores instead of a vector
  encoder: boolean; // whether the model is an encoder that computes only embeddings or scores and cannot generate text
  maxTokens: number; // maximum tokens per text, including special tokens
  labels: readonly string[]; // names of a reranker's scores; empty if the model file does not name them
  prefix: readonly number[]; // tokens that TokenizeOptions.addSpecial inserts before a text
  suffix: readonly number[]; // tokens that TokenizeOptions.addSpecial appends to a text
  separator: number | null; // token between two parts of a text, such as query and document; null: no token
}

/** How an image of a given size is processed. */
export interface PlannedImage {
  readonly tokens: number; // prompt tokens that it takes: its embeddings and the markers around them
  readonly columns: number; // tile grid; 1 x 1: a single piece; 0 x 0: a single piece that counts as an overview
  readonly rows: number;
  readonly pieces: readonly ImagePiece[]; // in the order in which the model reads them
}

export interface ImagePiece {
  // image: the whole image if it is not split; tile: one part of the image; overview: the whole image, in addition to
  // tiles
  readonly part: 'image' | 'tile' | 'overview';
  readonly row: number;
  readonly column: number; // row and column of a tile, starting at 1; otherwise 0
  readonly width: number;
  readonly height: number; // size in pixels, as passed to the vision encoder
  readonly tokens: number; // number of embeddings
}

/**
 * An image that has been split and resized for one engine's vision encoder. Using it with another engine throws a
 * TypeError. Any number of requests may share it.
 */
export interface NativeImage extends PlannedImage {
  readonly bytes: number; // memory it uses
}

export interface SubmitOptions {
  prompt: Int32Array;
  /**
   * Image positions: each image is inserted before the token at `at`. Sorted in ascending order; several images may
   * have the same position. Absent = none.
   */
  images?: { at: number; image: NativeImage }[];
  organization: number; // the organization's 32-bit number
  background?: boolean; // true: started only while no other request waits, and preempted for others; absent = false
  // AdapterInfo.id of the LoRA adapter to use; null or absent = no adapter. Throws `invalid_argument` if no adapter
  // with this id is loaded.
  adapter?: number | null;
  n: number;
  maxTokens: number; // per choice; at least 1 for output 'tokens', otherwise 0
  // 'tokens' (default): generated tokens; 'logprobs': only the prompt's logprobs; 'nothing': only fills the prefix
  // cache; 'vector': only the prompt's vector or scores, as a 'vector' event, which requires ModelInfo.embeddings
  output?: 'tokens' | 'logprobs' | 'vector' | 'nothing';
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
  promptLogprobs?: number; // the same for the prompt's tokens, as 'prompt' events; not with images; absent = -1
  // minimum tokens before an end token or stop string takes effect; a grammar takes precedence; absent = 0
  minTokens?: number;
  // text that the output probably repeats, used for draft tokens; at most the context's length; absent = none
  prediction?: Int32Array;
  returnTokens?: boolean; // emit 'tokens' events; absent = false
  stop: string[];
  stopTokens: number[];
  ignoreEos: boolean;
  prefixCache: boolean;
  /**
   * Label under which a finished sequence's pages are exported to the storage tier, at most 256 bytes; absent = not
   * exported.
   */
  retain?: string;
  queueWaitMs: number;
  generationMs: number;
  /**
   * Single-token markers of reasoning and tool calls are sampled only where they are valid: the opening marker before
   * any content (and not with a budget of 0), and the closing marker or a call inside the reasoning. Defaults to false.
   */
  markersInPlace?: boolean;
  /**
   * Ends the generation with `repetition` when a sequence of up to 64 tokens repeats this many times in a row and the
   * repetitions cover at least 16 tokens. 0 or absent = disabled.
   */
  maxRepeats?: number;
  reasoning: {
    open: string;
    close: string; // '' = none
    startsInside: boolean;
    continued?: boolean; // the prompt already contains part of the reasoning, so leading line breaks belong to it
    budget: number; // -1 = unlimited
    closeText: string; // text that the engine appends when the budget is used up, e.g. '\n</think>\n\n'
  } | null;
  calls?: CallOptions | null; // absent or null: no tool calls
  /**
   * Constrains the content to this grammar. The content starts after the reasoning, if there is any. If tool calls are
   * neither forbidden nor required, the content is either text that matches the grammar or a call. The end of the turn
   * is sampled only where the text may end; where nothing else can follow, it is emitted without sampling. Absent or
   * null: unconstrained.
   */
  format?: NativeGrammar | null;
  /**
   * Header before the constrained text, for models that start both content and calls with a header; at most 256 bytes.
   * When the content starts, the engine writes either this header or the beginning of a call, sampling where the two
   * differ. Absent or '': none.
   */
  formatHead?: string;
}

/**
 * Tool calls within the content. The text from the opening marker through the closing marker goes to the 'tool'
 * section, with tokens written out: the texts of markers and control tokens are included, stop strings do not apply,
 * and there are no logprobs. If the vocabulary has a control or user-defined token with the marker's text, only that
 * token counts as the marker; otherwise the text does.
 */
export interface CallOptions {
  open: string; // e.g. '<tool_call>'; 1 to 256 bytes
  close: string; // '' = the section lasts until the end of the turn
  /** The opening marker counts only at the start of the content. Whitespace before it then belongs to the section. */
  atStart: boolean;
  /**
   * The texts that may follow the opening marker, such as '\n{"name": "a", "arguments":'; one of them must follow. The
   * engine writes their common part and samples where they differ. Applies after every opening marker that is a token.
   * After a marker that is plain text, it applies only if `required`, or if a token ends with the marker. [] =
   * unconstrained. At most 128 texts of 1 to 1024 bytes each.
   */
  prefixes: string[];
  /**
   * One grammar per entry of `prefixes`, or absent. Each grammar covers the text after its prefix, up to and including
   * the closing marker, which ends the grammar's suffix. Null means unconstrained. A grammar applies wherever the
   * prefix is enforced. For an opening marker that is not a token, it applies where the call is `required`, replaces
   * the format or follows another call with a grammar, or where a token ends with the marker. After a call with a
   * grammar, the turn ends or another call follows; with `atStart` or without a closing marker, the turn always ends.
   * After a call without a grammar, anything may follow.
   */
  grammars?: (NativeGrammar | null)[];
  /**
   * For sections that contain several calls. `next`: the text that starts another call after a grammar has ended;
   * grammar i uses entry i modulo the number of entries. `end`: the text that ends the section, including the closing
   * marker. If `end` is set, no grammar's suffix contains the closing marker.
   */
  next?: string[];
  end?: string;
  /**
   * The text after the opening marker that ends the section and starts the content, for models whose content has a
   * header that starts like a call. Absent if there is none.
   */
  answer?: string;
  /**
   * Used if there is no closing marker: a section ends where its grammar ends, and the turn continues as it would after
   * a closing marker.
   */
  endsItself?: boolean;
  /**
   * The content must start with a call: the engine writes the opening marker and a prefix, after the reasoning if there
   * is any.
   */
  required: boolean;
  /**
   * Tool calls are disabled: a marker that is a token is never sampled, and no section is split off. Excludes
   * `required`.
   */
  forbidden: boolean;
}

/** A LoRA adapter that is loaded into a running engine. */
export interface AdapterInfo {
  readonly id: number; // positive; the engine never reuses it for another adapter
  readonly name: string;
  readonly rank: number; // the maximum rank of its matrices
  readonly alpha: number; // as declared in the file
  readonly scale: number; // AdapterOptions.scale
  readonly bytes: number; // memory that its matrices use, in bytes
  readonly targets: readonly string[]; // the kinds of matrices that it changes: 'attn_q', 'ffn_down', ...
  // 32 hexadecimal digits: a hash of the adapter's matrices and scale. Requests share KV pages only if their adapters
  // have the same cache key.
  readonly cacheKey: string;
}

export interface AdapterOptions {
  name: string; // 1 to 256 bytes; the engine uses it only in error messages and statistics, and it need not be unique
  scale?: number; // multiplies the adapter's output, in addition to alpha / rank; -1e6 to 1e6; absent = 1
}

/** Memory use and request counts of an adapter. */
export interface AdapterStats {
  id: number;
  name: string;
  bytes: number;
  running: number; // requests that have started and have not ended
  waiting: number; // requests in the queue
  unloading: boolean; // unloadAdapter() was called; the adapter is freed when its last request has ended
}

/** Positions of a prompt that contain an image. */
export interface PromptSpan {
  readonly first: number;
  readonly rows: number;
  readonly hash: readonly [bigint, bigint]; // 128-bit hash of the image's content, as two unsigned 64-bit numbers
  readonly bidirectional: boolean;
}

/** The inputs that, with the model, determine the content of KV pages: the tokens from position 0, and the adapter. */
export interface PageText {
  readonly tokens: Int32Array;
  readonly spans: readonly PromptSpan[];
  readonly adapter?: string; // AdapterInfo.cacheKey; '' or absent = no adapter
}

/**
 * The parts of one page, in the engine's internal layout (NativeEngine.pageSizes). Absent if not stored or not
 * requested.
 */
export interface PageData {
  readonly index: number; // the page holds positions 16 * index ff.
  readonly full?: Uint8Array; // layers without a sliding window; empty if all layers have one
  readonly window?: Uint8Array; // layers with a sliding window
  readonly snapshot?: Uint8Array; // recurrent state at the end of the page
}

/**
 * Pages of a finished sequence with SubmitOptions.retain. The pages of one sequence may be split over several
 * events.
 */
export interface PageExport extends PageText {
  readonly type: 'export';
  readonly organization: number;
  readonly label: string;
  readonly tokens: Int32Array; // all full pages of the sequence, also those that were exported before
  readonly pages: readonly PageData[];
  readonly skipped: number; // pages that were evicted first, or for which there was no room
  readonly last: boolean;
}

/** The engine's messages to the storage tier. */
export type TierEvent =
  | PageExport
  /**
   * An import was opened. `pages`: bit flags for each leading page that is in the pool: 1, plus 2 if it has a window,
   * plus 4 if it has a snapshot. Null if the import was refused because too many imports are open.
   */
  | { readonly type: 'opened'; readonly id: number; readonly pages: Uint8Array | null }
  /**
   * The first `pages` of the given pages were written. If there are fewer than given, the pool was full or the
   * import has ended.
   */
  | { readonly type: 'written'; readonly id: number; readonly pages: number };

/** The connection between an engine and the storage tier of its KV pages (docs/internals/kv-tiers.md). */
export interface NativeTier {
  /** Acknowledges that this many exported bytes have been stored, which frees room for further exports. */
  acknowledge(bytes: number): void;
  /**
   * Allows pages that have already been exported to be exported again, because the storage tier may have dropped them.
   */
  forget(): void;
  /**
   * Touches the first pages of a pool that has not been used yet, so that the operating system allocates their memory
   * before the first import needs it.
   */
  touchPool(): void;
  /**
   * Holds the leading pages of a prompt that are in the pool, until closeImport() or until another request needs their
   * memory. The engine responds with `opened`. `id`: positive and unique among open imports. `pinned`: other requests
   * do not take the pages before closeImport(), unless no sequence could run otherwise.
   */
  openImport(id: number, organization: number, text: PageText, pinned: boolean): void;
  /**
   * Copies pages into the pool, in ascending order and without gaps after the held pages. The engine responds with
   * `written`.
   */
  writeImport(id: number, pages: readonly PageData[]): void;
  closeImport(id: number): void;
  close(): void;
}

export interface NativeStats {
  waiting: number;
  running: number;
  waitingTokens: number; // prompt tokens in waiting requests
  pagesTotal: number;
  pagesFree: number;
  pagesCached: number;
  kvUsedBytes: number; // memory of all pages that have ever been used; on a GPU, of all pages
  lastStepAgeMs: number;
  maxBatchTokens: number;
  maxSequences: number;
  failed: boolean;
  note: string; // a condition that an operator should know about; empty: none
  // bytes of weights known to be in huge pages; null while weights are still being moved to huge pages
  hugePageBytes: number | null;
  stepMs: number;
  queueMax: number;
  queueMaxTokens: number;
  loadedBatchTokens: number; // maxBatchTokens when loaded
  mostBatchTokens: number;
  mostSequences: number; // allocated maximums, to which configure() clamps
  steps: number;
  stepRows: number;
  prefillTokens: number;
  decodeTokens: number;
  cachedTokens: number;
  imagePieces: number;
  imagePiecesCached: number; // image pieces encoded by the vision encoder, and found in the cache
  promptTokens: number;
  promptTokensCached: number; // prompt tokens of started requests, and how many of them were found in the prefix cache
  draftTokens: number;
  acceptedTokens: number; // draft tokens computed, and how many were accepted
  requests: number;
  finished: number;
  failedRequests: number;
  preemptions: number;
  cancelledQueued: number;
  cancelledPrefill: number;
  cancelledDecode: number;
  pagesExported: number; // KV pages given to the storage tier
  pagesImported: number; // and taken from it
  exportsSkipped: number; // KV pages that could not be given to it
  exportsPending: number; // KV pages that are still to be given to it
  stepSeconds: number;
  promptStepSeconds: number; // total duration and tokens of the steps in which prefill is most of the work
  promptStepRows: number;
  adapters: AdapterStats[]; // in the order in which they were loaded
}

/** Totals over all calls of one operation in the forward pass. */
export interface OpFigures {
  name: string; // a matmul includes its shape: 'matmul 2048 x 2560'
  calls: number;
  nanoseconds: number;
  bytes: number; // bytes that must be read from memory at least once
  operations: number; // multiplications and additions in its matmuls
}

/**
 * Settings that can be changed while an engine runs; absent members stay unchanged. Ranges, in the order of the
 * members: 1 to 65536, 1 to 4096, 0 to 60000, 1 to 1e6, 1 to 1e9.
 */
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
   * Ends one choice with `end_of_turn` before its next step or, if it has not started, instead of its first token. Text
   * that was held back and the `finished` record follow. Has no effect if the choice is unknown or finished.
   */
  finish(request: number, choice: number): void;
  close(): void; // cancels all requests on this channel; no events follow
}

export interface NativeEngine {
  readonly info: ModelInfo;
  /** `amxProblem`: why AMX is disabled although the CPU has it; otherwise empty. */
  readonly backend: { name: string; isa: string; threads: number; amxProblem: string };
  readonly plan: MemoryPlan;
  readonly fileHash: string;
  /** Identifies every engine property that affects the bits of KV pages, apart from the files and the load options. */
  readonly cacheIdentity: string;
  /**
   * Size of each part of a page, in bytes; 0 if the model does not have this part. `windowTokens`: length of the
   * largest window.
   */
  readonly pageSizes: {
    readonly full: number;
    readonly window: number;
    readonly snapshot: number;
    readonly windowTokens: number;
  };
  readonly maxContext: number;
  /** The vision encoder; null if the engine has none. */
  readonly vision: { readonly projector: string; readonly mostTokens: number } | null;
  /** Why the configured vision encoder was ignored. Null if it was not ignored, or if none was configured. */
  readonly visionProblem: string | null;
  /**
   * Returns how an image of this size would be processed, without needing its pixels. `low`: use as few tokens as the
   * model allows. Throws `invalid_argument` if the image cannot be processed at this size, and `unsupported` without a
   * vision encoder.
   */
  planImage(width: number, height: number, low: boolean): PlannedImage;
  /**
   * Prepares an image, given as 8-bit red, green and blue, row by row. Copies `pixels`; all other work runs off the
   * event loop.
   */
  prepareImage(pixels: Uint8Array, width: number, height: number, low: boolean): Promise<NativeImage>;
  /**
   * `onEvents` receives one packed buffer (native/engine/events.h) per step, and the age of the buffer's first event in
   * milliseconds. It is called on this thread and owns the buffer.
   */
  open(onEvents: (events: Uint8Array, ageMs: number) => void): NativeChannel;
  /**
   * Connects the storage tier on this thread. `maxBytes`: limit on unacknowledged exported bytes. Sequences with fewer
   * than `minTokens` positions in full pages are not exported. A second call for the same engine disconnects the first
   * tier.
   */
  openTier(maxBytes: number, minTokens: number, onEvents: (events: readonly TierEvent[]) => void): NativeTier;
  /** Returns the positions of a prompt as the prefix cache compares them, with its images inserted. */
  positions(options: Pick<SubmitOptions, 'prompt' | 'images'>): { tokens: Int32Array; spans: PromptSpan[] };
  /**
   * Loads a LoRA adapter off the event loop, while requests run. `path`: a GGUF file or a PEFT folder
   * (adapter_config.json and adapter_model.safetensors). All handles of the engine share its loaded adapters. Rejects
   * with
   * - `io` if the file cannot be read,
   * - `invalid_file` or `unsupported`, with the key or tensor in the message,
   * - `invalid_argument` if the adapter does not fit the model,
   * - `out_of_memory` if 64 adapters are loaded or there is not enough memory.
   */
  loadAdapter(path: string, options: AdapterOptions): Promise<AdapterInfo>;
  /**
   * Makes an adapter unavailable to new requests. Requests already using it finish normally; its memory is freed after
   * the last one. Resolves without waiting for these requests. Rejects with `invalid_argument` if no adapter with this
   * id is loaded.
   */
  unloadAdapter(id: number): Promise<void>;
  /** Returns the adapters that requests can use, including adapters loaded through other handles of the engine. */
  adapters(): AdapterInfo[];
  tokenize(text: string, options: TokenizeOptions): Int32Array;
  tokenizeAsync(text: string, options: TokenizeOptions): Promise<Int32Array>; // off the event loop, for long texts
  tokenBytes(token: number): Uint8Array;
  findToken(spelling: string): number; // -1 if there is none
  /**
   * Compiles a grammar off the event loop, within limits on memory, work and time. Recent results are cached. If a
   * grammar cannot be compiled, the promise still resolves, with a null `grammar` and the reasons in `problems`.
   */
  compileGrammar(options: GrammarOptions): Promise<CompiledGrammar>;
  detokenize(tokens: Int32Array): string; // renders all tokens, including special ones
  stats(): NativeStats;
  /** Cost of each operation since the engine started; null without LoadOptions.profile. For benchmarks. */
  profile(): OpFigures[] | null;
  configure(tunables: NativeTunables): void; // applies from the next step or submission, clamped to what was allocated
  /**
   * Clears the prefix cache of one organization or, if none is given, of all organizations. Pages in use and pinned
   * pages are kept.
   */
  clearCache(organization?: number): void;
  drain(): void;
  close(): Promise<void>; // closes this handle; the engine stops when its last handle is closed
}

/** A tokenizer that is loaded without the model's weights. GGUF files that contain only a vocabulary are supported. */
export interface NativeTokenizer {
  tokenize(text: string, options: TokenizeOptions): Int32Array;
  detokenize(tokens: Int32Array): string;
}

export interface Addon {
  readonly version: string;
  /** Increased by every release whose results for the same model, options and input differ in any bit. */
  readonly numericsVersion: number;
  readonly isas: string[]; // instruction sets that this processor supports, from simplest to most advanced
  /**
   * `path`, here and below: a GGUF file or a Hugging Face directory. A directory is read as if it had been converted to
   * a GGUF file.
   */
  inspect(path: string, options: LoadOptions): Promise<Inspection>; // off the event loop
  /**
   * The sampling values recommended by a GGUF file's authors (`general.sampling.*` keys), unchanged. Missing and
   * non-numeric values are omitted. Throws if the file cannot be read.
   */
  recommendedSampling(
    path: string,
  ): Partial<Record<'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repetition_penalty', number>>;
  /**
   * The tensors that a GGUF file's model needs, derived from its metadata and the list of optional tensors. The tensor
   * data is not read. For tools that write models.
   */
  wantedTensors(path: string): { name: string; shape: number[]; vector: boolean }[];
  loadTokenizer(path: string): NativeTokenizer;
  /**
   * Loads a model off the event loop. Loading the same `name` on another worker thread attaches to the existing engine.
   */
  load(name: string, path: string, options: LoadOptions, onProgress: (fraction: number) => void): Promise<NativeEngine>;
  debugLogits(
    path: string,
    options: LoadOptions,
    ids: Int32Array,
    positions: Int32Array,
    continueTokens: number,
  ): Promise<DebugLogits>;
  /** Runs a text model with a vision encoder file on a prompt that contains `<__media__>` in place of each image. */
  debugVision(
    path: string,
    visionPath: string,
    options: LoadOptions,
    prompt: string,
    images: readonly RgbImage[],
    continueTokens: number,
  ): Promise<DebugVision>;
  /**
   * Locks an open file for the holder of this descriptor. Returns false if another holder has it. The kernel releases
   * the lock when the descriptor is closed, or when the process ends for any reason. Throws `io` if the file system
   * does not support locks.
   */
  lockFile(descriptor: number): boolean;
  /**
   * Repairs a heap overflow in the lmdb package that a full disk triggers. Must be called after lmdb has been loaded,
   * on any thread. Returns how many of the package's imported functions were replaced.
   */
  guardLmdbErrors(): number;
  /** Memory available to models, within this process's cgroup limits. */
  memory(): MachineMemory;
  /**
   * Bytes per second that a simple read loop with `threads` threads achieves over a buffer of `bytes` bytes; the best
   * of `repeats` runs. For benchmarks.
   */
  readBandwidth(threads: number, bytes: number, repeats: number): Promise<number>;
  /**
   * Multiplications and additions per second that the CPU's vector units achieve in 8-bit integer and float matmuls;
   * the best of `repeats` runs. For benchmarks.
   */
  arithmeticPeak(isa: string, threads: number, repeats: number): Promise<{ integer8: number; float32: number }>;
}
