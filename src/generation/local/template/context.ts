// The input of a chat template: messages and tools in the form that templates expect (the Hugging Face convention).

/** A message in the form that chat templates expect. */
export interface TemplateMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  name?: string;
  reasoning_content?: string;
  thinking?: string;
  reasoning?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: unknown } }[];
  tool_call_id?: string;
}

/** A tool definition in the form that chat templates expect. */
export interface TemplateTool {
  type: 'function';
  function: { name: string; description: string; parameters: Record<string, unknown> };
}

export interface TemplateContext {
  messages: TemplateMessage[];
  tools: TemplateTool[] | null;
  addGenerationPrompt: boolean;
  enableThinking: boolean;
  /** The value of `reasoning_effort`. If absent, the variable is not set, so the template uses its default. */
  effort?: string | undefined;
  /** The client's variables. They override the variables that are set from the fields above. */
  variables?: Readonly<Record<string, unknown>> | undefined;
  /** A code point that templates print unchanged; see shield.ts. */
  guard?: number;
}
