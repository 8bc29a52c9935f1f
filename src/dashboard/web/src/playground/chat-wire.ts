// The part of POST /v1/chat/completions that the playground uses: request fields and chunk fields. Contains only types.

export type ContentPart = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } };
export interface ToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

export type ChatMessage =
  | { role: 'system'; content: string }
  | { role: 'user'; content: string | ContentPart[] }
  | { role: 'assistant'; content: string | null; reasoning_content?: string; tool_calls?: ToolCall[] }
  | { role: 'tool'; tool_call_id: string; content: string };

export interface FunctionTool {
  type: 'function';
  function: { name: string; description?: string; parameters?: object; strict?: boolean };
}
export type ResponseFormat =
  | { type: 'json_object' }
  | { type: 'json_schema'; json_schema: { name: string; schema: object; strict: boolean } };

export interface ChatBody {
  model: string;
  messages: ChatMessage[];
  stream: true;
  stream_options: { include_usage: true };
  max_completion_tokens?: number;
  temperature?: number;
  top_p?: number;
  top_k?: number;
  stop?: string[];
  logprobs?: true;
  top_logprobs?: number;
  seed?: number;
  reasoning_effort?: string;
  tools?: FunctionTool[];
  response_format?: ResponseFormat;
}

/** Natural logarithms. */
export interface TokenLogprob {
  token: string;
  logprob: number;
  top_logprobs?: { token: string; logprob: number }[];
}

export interface ChunkUsage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
  completion_tokens_details?: { reasoning_tokens?: number };
}

export interface ChatChunk {
  id?: string;
  model?: string;
  choices?: {
    index: number;
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
    };
    logprobs?: { content?: TokenLogprob[] | null } | null;
    finish_reason?: string | null;
  }[];
  usage?: ChunkUsage | null;
  error?: { message?: string; type?: string; code?: string | null; param?: string | null };
}
