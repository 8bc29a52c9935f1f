// A request's thinking settings, and the thinking blocks from earlier responses that the client sends back. All
// returned blocks are decrypted before any other processing; the results are looked up by block object.
import { apiError } from '../../shared/errors.js';
import { invalidThinkingText } from '../../shared/matched-texts.js';
import type { GenerationRequest } from '../../generation/types.js';
import type { Sealer, Unsealed } from '../../accounts/sealing/sealer.js';
import type { ForeignThinking } from '../foreign-thinking.js';
import { conflict, templateSettings } from '../template-variables.js';
import { MAX_THINKING_BLOCKS } from './bounds.js';
import { MIN_THINKING_BUDGET, type MessagesRequest, type WireBlock } from './schema.js';

/** How returned thinking blocks are verified: the keys, the organization, and how to handle invalid blocks. */
export interface ThinkingPolicy {
  sealer: Pick<Sealer, 'openThinking'>;
  organizationId: string;
  foreignThinking: ForeignThinking;
}

export type ThinkingBlock = Extract<WireBlock, { type: 'thinking' | 'redacted_thinking' }>;

/** The thinking blocks of a request. */
export interface OpenedBlocks {
  opened: ReadonlyMap<WireBlock, Unsealed & { path: string }>;
  /** Blocks that cannot be verified for this organization, with their paths in the request. */
  foreign: ReadonlyMap<WireBlock, string>;
}

/** Throws ApiError 400 `invalid_thinking_signature`. */
export function openThinkingBlocks(
  { messages, thinking }: Pick<MessagesRequest, 'messages' | 'thinking'>,
  { sealer, organizationId, foreignThinking }: ThinkingPolicy,
): OpenedBlocks {
  const opened = new Map<WireBlock, Unsealed & { path: string }>();
  const foreign = new Map<WireBlock, string>();
  const rejects = foreignThinking === 'reject' || mismatchBehavior(thinking) === 'error';
  let seen = 0;
  for (const [index, message] of messages.entries()) {
    if (message.role !== 'assistant' || typeof message.content === 'string') continue;
    for (const [at, block] of message.content.entries()) {
      if (block.type !== 'thinking' && block.type !== 'redacted_thinking') continue;
      const path = `messages[${index}].content[${at}]`;
      if (++seen > MAX_THINKING_BLOCKS)
        throw apiError(
          'array_too_long',
          `messages may have at most ${MAX_THINKING_BLOCKS} thinking blocks in total.`,
          path,
        );
      const found = open(block, sealer, organizationId);
      if (found !== null) opened.set(block, { ...found, path });
      else if (!rejects) foreign.set(block, path);
      else {
        throw apiError(
          'invalid_thinking_signature',
          invalidThinkingText(path, block.type === 'thinking' ? 'signature' : 'data'),
          path,
        );
      }
    }
  }
  return { opened, foreign };
}

const mismatchBehavior = (thinking: MessagesRequest['thinking']): string | null | undefined =>
  thinking != null && 'block_binding' in thinking ? thinking.block_binding?.prefix_mismatch_behavior : null;

function open(block: ThinkingBlock, sealer: Pick<Sealer, 'openThinking'>, organizationId: string): Unsealed | null {
  if (block.type === 'thinking') return sealer.openThinking(block.signature ?? '', block.thinking, organizationId);
  const opened = sealer.openThinking(block.data ?? '', '', organizationId);
  return opened?.format === 'sealed' ? opened : null;
}

export const isThinking = (thinking: MessagesRequest['thinking']): boolean =>
  thinking?.type === 'enabled' || thinking?.type === 'adaptive';

export interface ThinkingSettings {
  effort: GenerationRequest['effort'];
  /** `output_config.effort`, which also applies to a response without thinking. */
  promptEffort: GenerationRequest['promptEffort'];
  reasoningBudget: number | null;
  templateVariables: GenerationRequest['templateVariables'];
  /** If false, the thinking text is sent only in encrypted form, in the signature. */
  visible: boolean;
}

/**
 * If `maxTokens` is null, the budget is not compared with an output limit. Throws ApiError 422 `value_out_of_range`.
 */
export function thinkingSettings(
  { thinking, output_config: output, chat_template_kwargs: kwargs }: MessagesRequest,
  maxTokens: number | null,
): ThinkingSettings {
  const template = templateSettings(kwargs, {
    thinking: thinking == null ? null : { on: isThinking(thinking), param: 'thinking' },
  });
  const promptEffort = output?.effort ?? undefined;
  const variable = template.variables?.['reasoning_effort'] ?? undefined;
  if (promptEffort !== undefined && variable !== undefined && promptEffort !== variable)
    throw conflict('chat_template_kwargs.reasoning_effort', 'output_config.effort');
  const rest = { promptEffort, templateVariables: template.variables };
  switch (thinking?.type) {
    case 'enabled': {
      const { budget_tokens: budget } = thinking;
      const refuse = (rule: string): never => {
        throw apiError('value_out_of_range', `thinking.budget_tokens must be ${rule}.`, 'thinking.budget_tokens');
      };
      if (budget < MIN_THINKING_BUDGET) refuse(`at least ${MIN_THINKING_BUDGET}`);
      if (maxTokens !== null && budget >= maxTokens) refuse('less than max_tokens');
      return { ...rest, effort: 'enabled', reasoningBudget: budget, visible: thinking.display !== 'omitted' };
    }
    case 'adaptive':
      return {
        ...rest,
        effort: output?.effort ?? template.effort ?? 'enabled',
        reasoningBudget: null,
        visible: thinking.display !== 'omitted',
      };
    default:
      return {
        ...rest,
        effort: thinking == null ? (template.effort ?? 'none') : 'none',
        reasoningBudget: null,
        visible: true,
      };
  }
}
