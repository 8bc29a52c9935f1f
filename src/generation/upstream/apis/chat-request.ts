// Builds requests in the chat completions format, for vLLM, SGLang, llama-server, Ollama, TensorRT-LLM and hosted
// models. No side effects.
import { withMembers } from '../../../shared/exact-json.js';
import type { Upstream } from '../../../config/upstream.js';
import { isGbnf } from '../../output-format.js';
import type { Content, GenerationRequest, ImagePart, Message, OutputFormat, ReasoningEffort } from '../../types.js';
import { given, type Asked, type Body } from './api.js';
import { refuseOwnArithmetic, samplingFields, streamOptions } from './chat-parts.js';

export function chatBody({ request, cap, upstream }: Asked): Body {
  refuseOwnArithmetic(request);
  return given({
    messages: request.messages.flatMap((message) => chatMessages(message, upstream.thinking_field)),
    stream: true,
    stream_options: streamOptions(upstream.structured_outputs),
    ...samplingFields(request),
    [upstream.cap_field]: cap ?? undefined,
    ...(request.topLogprobs === null ? {} : { logprobs: true, top_logprobs: request.topLogprobs }),
    ...toolFields(request),
    ...formatFields(request.format, upstream.structured_outputs),
    ...effortFields(request, upstream.thinking),
    prediction: request.prediction === undefined ? undefined : { type: 'content', content: request.prediction },
    ...(request.continueFinal ? { continue_final_message: true, add_generation_prompt: false } : {}),
  });
}

function toolFields({ tools, toolChoice, parallelToolCalls }: GenerationRequest): Body {
  if (tools.length === 0) return {};
  const { mode, allowed } = toolChoice;
  // If only some tools are allowed, only those are sent, because few upstreams support `allowed_tools`.
  const shown = allowed === null ? tools : tools.filter(({ name }) => allowed.includes(name));
  const only = mode === 'required' && shown.length === 1 ? shown[0] : undefined;
  return {
    tools: shown.map(({ name, description, parameters, strict }) => ({
      type: 'function',
      function: given({
        name,
        description: description ?? undefined,
        parameters: parameters ?? { type: 'object', properties: {} },
        strict: strict ? true : undefined,
      }),
    })),
    tool_choice: only === undefined ? mode : { type: 'function', function: { name: only.name } },
    ...(parallelToolCalls ? {} : { parallel_tool_calls: false }),
  };
}

/**
 * Returns the request fields for an output format that the upstream can enforce. All other formats are checked once the
 * response is complete.
 */
export function formatFields(format: OutputFormat, held: Upstream['structured_outputs']): Body {
  switch (format.type) {
    case 'text':
      return {};
    case 'json_object':
      return held === 'none' ? {} : { response_format: { type: 'json_object' } };
    case 'json_schema':
      if (held === 'none') return {};
      if (held === 'json_object') return { response_format: { type: 'json_object' } };
      return {
        response_format: {
          type: 'json_schema',
          json_schema: { name: format.name ?? 'answer', schema: format.schema, strict: format.strict },
        },
      };
    case 'regex':
      return held === 'vllm'
        ? { structured_outputs: { regex: format.pattern } }
        : held === 'monolith'
          ? { response_format: { type: 'regex', pattern: format.pattern } }
          : {};
    case 'choice':
      return held === 'vllm'
        ? { structured_outputs: { choice: format.choices } }
        : held === 'monolith'
          ? { response_format: { type: 'choice', choices: format.choices } }
          : {};
    case 'grammar':
      if (held === 'vllm') return { structured_outputs: { grammar: format.grammar } };
      if (held === 'monolith') return { response_format: { type: 'grammar', grammar: format.grammar } };
      return held === 'llama-server' && isGbnf(format.grammar) ? { grammar: format.grammar } : {};
  }
}

/** Whether an upstream with this format enforces the output format on its own. */
export function chatHolds(format: OutputFormat, held: Upstream['structured_outputs']): boolean {
  if (format.type === 'text') return true;
  const fields = formatFields(format, held);
  return format.type === 'json_schema' && held === 'json_object' ? false : Object.keys(fields).length > 0;
}

/** The effort levels that upstreams support. */
export const LEVELS: Readonly<Record<ReasoningEffort, string>> = {
  none: 'none',
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
};

function effortFields(
  { effort, templateVariables }: Pick<GenerationRequest, 'effort' | 'templateVariables'>,
  how: Upstream['thinking'],
): Body {
  const asked = effort !== null && how !== 'none';
  const enable = asked && how === 'enable_thinking' ? { enable_thinking: effort !== 'none' } : {};
  const variables = withMembers(enable, templateVariables ?? {});
  return {
    ...(Object.keys(variables).length === 0 ? {} : { chat_template_kwargs: variables }),
    ...(asked && how === 'reasoning_effort' && templateVariables?.['reasoning_effort'] === undefined
      ? { reasoning_effort: LEVELS[effort === 'enabled' ? 'medium' : effort] }
      : {}),
  };
}

function chatMessages(message: Message, thinkingField: Upstream['thinking_field']): Body[] {
  switch (message.role) {
    case 'system':
      return [given({ role: 'system', content: message.content, name: message.name })];
    case 'user':
      return [given({ role: 'user', content: contentOf(message.content), name: message.name })];
    case 'assistant':
      return [
        given({
          role: 'assistant',
          content: message.content,
          name: message.name,
          ...reasoningField(message, thinkingField),
          tool_calls:
            message.toolCalls === undefined || message.toolCalls.length === 0
              ? undefined
              : message.toolCalls.map(({ id, name, arguments: text }) => ({
                  id,
                  type: 'function',
                  function: { name, arguments: text },
                })),
        }),
      ];
    case 'tool': {
      // In this format, tool results are text, so their images follow in a user message.
      const { content } = message;
      const images = typeof content === 'string' ? [] : content.filter((part) => part.type === 'image');
      return [
        { role: 'tool', tool_call_id: message.toolCallId, content: textOf(content) },
        ...(images.length === 0 ? [] : [{ role: 'user', content: contentOf(images) }]),
      ];
    }
  }
}

/** Some upstreams reject a turn of the running tool loop without this field. If the reasoning was lost, it is empty. */
function reasoningField(
  { reasoning = '', lacksReasoning }: Extract<Message, { role: 'assistant' }>,
  name: Upstream['thinking_field'],
): Body {
  return name === 'none' || (reasoning === '' && lacksReasoning !== true) ? {} : { [name]: reasoning };
}

export const textOf = (content: Content): string =>
  typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('');

function contentOf(content: Content): string | object[] {
  if (typeof content === 'string') return content;
  if (content.every((part) => part.type === 'text')) return textOf(content);
  return content.map((part) =>
    part.type === 'text'
      ? { type: 'text', text: part.text }
      : {
          type: 'image_url',
          image_url: given({
            url: dataUrl(part),
            detail: part.detail === 'low' || part.detail === 'high' ? part.detail : undefined,
          }),
        },
  );
}

/**
 * Returns the image data itself, even for images specified by URL, so that the upstream never has to download anything.
 */
export function imageData({ source }: ImagePart): { mime: string; data: string } {
  if (source.kind !== 'loaded') throw new Error('the image was not loaded');
  return {
    mime: `image/${source.image.format}`,
    data: Buffer.from(source.image.bytes.buffer, source.image.bytes.byteOffset, source.image.bytes.byteLength).toString(
      'base64',
    ),
  };
}

function dataUrl(part: ImagePart): string {
  const { mime, data } = imageData(part);
  return `data:${mime};base64,${data}`;
}
