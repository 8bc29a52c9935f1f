// Recommended models for new users, by memory and by purpose. Shown by "monolith models --recommended", on the
// dashboard and in docs/guides/models.md. The engine supports the architectures of all of them
// (docs/reference/models.md). Sizes are approximate; the model pages have the exact sizes. The list was made without
// downloading the models.
//
// To update the list: check each page, change `date`, and run `npm run docs`.

export type RecommendedPurpose = 'text' | 'code' | 'vision';

export interface RecommendedModel {
  /** The name that "monolith run NAME" and "monolith pull NAME" accept. */
  readonly name: string;
  readonly purpose: RecommendedPurpose;
  /** Memory of the machine, in GB: 8, 16, 24 or 64. */
  readonly memoryGb: number;
  /** OWNER/REPO:QUANTIZATION. */
  readonly ref: string;
  /** Download size in GB (1000^3 bytes), including the vision projector. */
  readonly downloadGb: number;
  /** `general.architecture` of the GGUF file. */
  readonly architecture: string;
  readonly license: string;
  /** The model page, which lists the files and their sizes. */
  readonly source: string;
}

export interface RecommendedList {
  /** Date of the last change. */
  readonly date: string;
  readonly models: readonly RecommendedModel[];
}

const page = (repo: string): string => `https://huggingface.co/${repo}`;

export const RECOMMENDED: RecommendedList = {
  date: '2026-11-30',
  models: [
    {
      name: 'qwen3-4b',
      purpose: 'text',
      memoryGb: 8,
      ref: 'Qwen/Qwen3-4B-GGUF:Q4_K_M',
      downloadGb: 2.5,
      architecture: 'qwen3',
      license: 'Apache-2.0',
      source: page('Qwen/Qwen3-4B-GGUF'),
    },
    {
      name: 'qwen2.5-coder-3b',
      purpose: 'code',
      memoryGb: 8,
      ref: 'Qwen/Qwen2.5-Coder-3B-Instruct-GGUF:Q4_K_M',
      downloadGb: 2.1,
      architecture: 'qwen2',
      license: 'Qwen Research (non-commercial)',
      source: page('Qwen/Qwen2.5-Coder-3B-Instruct-GGUF'),
    },
    {
      name: 'gemma-3-4b',
      purpose: 'vision',
      memoryGb: 8,
      ref: 'ggml-org/gemma-3-4b-it-GGUF:Q4_K_M',
      downloadGb: 3.3,
      architecture: 'gemma3',
      license: 'Gemma',
      source: page('ggml-org/gemma-3-4b-it-GGUF'),
    },
    {
      name: 'qwen3-8b',
      purpose: 'text',
      memoryGb: 16,
      ref: 'Qwen/Qwen3-8B-GGUF:Q4_K_M',
      downloadGb: 5.0,
      architecture: 'qwen3',
      license: 'Apache-2.0',
      source: page('Qwen/Qwen3-8B-GGUF'),
    },
    {
      name: 'qwen2.5-coder-7b',
      purpose: 'code',
      memoryGb: 16,
      ref: 'Qwen/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M',
      downloadGb: 4.7,
      architecture: 'qwen2',
      license: 'Apache-2.0',
      source: page('Qwen/Qwen2.5-Coder-7B-Instruct-GGUF'),
    },
    {
      name: 'qwen3-vl-8b',
      purpose: 'vision',
      memoryGb: 16,
      ref: 'Qwen/Qwen3-VL-8B-Instruct-GGUF:Q4_K_M',
      downloadGb: 6.2,
      architecture: 'qwen3vl',
      license: 'Apache-2.0',
      source: page('Qwen/Qwen3-VL-8B-Instruct-GGUF'),
    },
    {
      name: 'gpt-oss-20b',
      purpose: 'text',
      memoryGb: 24,
      ref: 'ggml-org/gpt-oss-20b-GGUF:MXFP4',
      downloadGb: 12.1,
      architecture: 'gpt-oss',
      license: 'Apache-2.0',
      source: page('ggml-org/gpt-oss-20b-GGUF'),
    },
    {
      name: 'qwen2.5-coder-14b',
      purpose: 'code',
      memoryGb: 24,
      ref: 'Qwen/Qwen2.5-Coder-14B-Instruct-GGUF:Q4_K_M',
      downloadGb: 9.0,
      architecture: 'qwen2',
      license: 'Apache-2.0',
      source: page('Qwen/Qwen2.5-Coder-14B-Instruct-GGUF'),
    },
    {
      name: 'gemma-3-12b',
      purpose: 'vision',
      memoryGb: 24,
      ref: 'ggml-org/gemma-3-12b-it-GGUF:Q4_K_M',
      downloadGb: 8.2,
      architecture: 'gemma3',
      license: 'Gemma',
      source: page('ggml-org/gemma-3-12b-it-GGUF'),
    },
    {
      name: 'qwen3-30b-a3b',
      purpose: 'text',
      memoryGb: 64,
      ref: 'Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M',
      downloadGb: 18.6,
      architecture: 'qwen3moe',
      license: 'Apache-2.0',
      source: page('Qwen/Qwen3-30B-A3B-GGUF'),
    },
    {
      name: 'qwen3-coder-30b-a3b',
      purpose: 'code',
      memoryGb: 64,
      ref: 'unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF:Q4_K_M',
      downloadGb: 18.6,
      architecture: 'qwen3moe',
      license: 'Apache-2.0',
      source: page('unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF'),
    },
    {
      name: 'gemma-3-27b',
      purpose: 'vision',
      memoryGb: 64,
      ref: 'ggml-org/gemma-3-27b-it-GGUF:Q4_K_M',
      downloadGb: 17.4,
      architecture: 'gemma3',
      license: 'Gemma',
      source: page('ggml-org/gemma-3-27b-it-GGUF'),
    },
  ],
};

/** The entry with this name; undefined if there is none. */
export const recommendedModel = (name: string): RecommendedModel | undefined =>
  RECOMMENDED.models.find((one) => one.name === name.toLowerCase());
