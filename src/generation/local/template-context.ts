// What a chat template is given: messages and tools in the shape that templates expect (the Hugging Face convention).

/** A message in the shape chat templates expect (the Hugging Face convention). */
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

/** A tool definition in the same convention. */
export interface TemplateTool {
  type: 'function';
  function: { name: string; description: string; parameters: Record<string, unknown> };
}

export interface TemplateContext {
  messages: TemplateMessage[];
  tools: TemplateTool[] | null;
  addGenerationPrompt: boolean;
  enableThinking: boolean;
}
