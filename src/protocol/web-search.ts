// Parses the web search tool in each API format: the tool shown to the model, and the limits on its searches. No side
// effects.
import { z } from 'zod';
import {
  DEFAULT_MAX_USES,
  MOST_USES,
  SEARCH_TOOL,
  type DomainFilter,
  type WebSearchOptions,
} from '../generation/web-search/search-options.js';
import { apiError } from '../shared/errors.js';
import { integer } from './fields.js';
import { searchFields } from './ineffective.js';
import type { ToolInput } from './tools.js';
import { unreadFields } from './unread.js';
import { validatedAt } from './validation.js';

export interface ReadSearch {
  readonly input: ToolInput;
  readonly options: WebSearchOptions;
  /** Paths of the tool's fields that have no effect. */
  readonly ignored: readonly string[];
}

export const isMessagesSearch = (type: string): boolean => /^web_search_\d{8}$/.test(type);
export const isResponsesSearch = (type: string): boolean => /^web_search(_preview)?(_\d{4}_\d{2}_\d{2})?$/.test(type);

const MAX_DOMAINS = 256;
const domains = z.array(z.string().min(1).max(512)).max(MAX_DOMAINS).nullish();
const filters = { allowed_domains: domains, blocked_domains: domains };

const messagesTool = z.object({
  name: z.literal('web_search'),
  max_uses: integer().min(1).max(MOST_USES).nullish(),
  strict: z.boolean().nullish(),
  ...filters,
});
const responsesTool = z.object({ filters: z.object(filters).nullish() });
export const chatSearchOptions = z.object({});

/** Throws ApiError 400 or 422. */
export function messagesSearch(tool: object, index: number): ReadSearch {
  const { name, max_uses: maxUses, strict, ...domainLists } = validatedAt(messagesTool, tool, ['tools', index]);
  const path = `tools[${index}]`;
  return {
    input: { path, ...SEARCH_TOOL, name, strict },
    options: { name, maxUses: maxUses ?? DEFAULT_MAX_USES, ...domainFilter(domainLists, path) },
    ignored: ignoredIn(messagesTool, tool, 'tools'),
  };
}

/** `at`: the tool's position. `taken`: names of other tools. Throws ApiError 400 or 422. */
export function responsesSearch(
  tool: object,
  at: { readonly list: string; readonly index: number },
  taken: ReadonlySet<string>,
  maxCalls: number | null,
): ReadSearch {
  const path = `${at.list}[${at.index}]`;
  const { filters: given } = validatedAt(responsesTool, tool, [at.list, at.index]);
  const name = freeName(taken);
  return {
    input: { path, ...SEARCH_TOOL, name },
    options: {
      name,
      maxUses: Math.min(maxCalls ?? DEFAULT_MAX_USES, MOST_USES),
      ...domainFilter(given ?? {}, `${path}.filters`),
    },
    ignored: ignoredIn(responsesTool, tool, 'tools'),
  };
}

/** `taken`: names of other tools. */
export function chatSearch(options: object, taken: ReadonlySet<string>): ReadSearch {
  const name = freeName(taken);
  return {
    input: { path: 'web_search_options', ...SEARCH_TOOL, name },
    options: { name, maxUses: DEFAULT_MAX_USES, allowedDomains: null, blockedDomains: [] },
    ignored: ignoredIn(chatSearchOptions, options, 'web_search_options'),
  };
}

function domainFilter(
  { allowed_domains: allowed, blocked_domains: blocked }: { [K in keyof typeof filters]?: z.infer<typeof domains> },
  path: string,
): DomainFilter {
  const allowedDomains = allowed == null || allowed.length === 0 ? null : allowed;
  const blockedDomains = blocked ?? [];
  // Anthropic's service reports this as 400.
  if (allowedDomains !== null && blockedDomains.length > 0)
    throw apiError(
      'conflicting_parameters',
      `${path}: only one of allowed_domains and blocked_domains can be used.`,
      `${path}.allowed_domains`,
      { status: 400 },
    );
  return { allowedDomains, blockedDomains };
}

/** The tool is wrapped in an object, because unreadFields() lists top-level members even if they are empty. */
const ignoredIn = (schema: z.ZodType, value: object, path: string): string[] =>
  unreadFields(z.object({ [path]: schema }), { [path]: value }, searchFields);

/**
 * Returns the search tool's name as shown to the model. It differs from `web_search` if a client tool has that name.
 */
function freeName(taken: ReadonlySet<string>): string {
  let name = SEARCH_TOOL.name;
  for (let number = 1; taken.has(name); number++) name = `search_web_${number}`;
  return name;
}
