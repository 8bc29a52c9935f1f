// What `models.<id>.upstream` takes: where a model runs that is not computed here, and how its servers are spoken to. Pure.
import { z } from 'zod';

/** Whose wire format a server speaks; each is a path below its address. */
export const UPSTREAM_APIS = ['chat-completions', 'completions', 'responses', 'messages'] as const;
export type UpstreamApi = (typeof UPSTREAM_APIS)[number];

/** One server that answers for a model. */
export interface UpstreamServer {
  /** Up to and including its version, without a slash at the end: http://127.0.0.1:8000/v1. */
  readonly url: string;
  readonly api: UpstreamApi;
  /** The model's name there; null: ours. */
  readonly model: string | null;
  /** Secret: sent to this server alone, in no log and no answer. */
  readonly key: string | null;
  /** Further headers, as secret as the key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly weight: number;
}

export interface Upstream {
  /** At least one. */
  readonly servers: readonly UpstreamServer[];
  /** The model that is asked where none of the servers answers. */
  readonly fallback: string | null;
  /** It sees. */
  readonly images: boolean;
  /** How a wish for more or less thinking is put. */
  readonly thinking: 'reasoning_effort' | 'enable_thinking' | 'none';
  /** What earlier thinking is sent back as. */
  readonly thinking_field: 'reasoning_content' | 'reasoning' | 'none';
  /** Forms that the servers hold answers to by themselves; others are checked here. */
  readonly structured_outputs: 'json_schema' | 'json_object' | 'vllm' | 'llama-server' | 'monolith' | 'none';
  /** What the cap of an answer is called. */
  readonly cap_field: 'max_tokens' | 'max_completion_tokens';
}

const isAddress = (value: string): boolean => {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password, search, hash } = new URL(value);
  return /^https?:$/.test(protocol) && username === '' && password === '' && search === '' && hash === '';
};

const visible = z.string().regex(/^[\x20-\x7e]+$/, 'must be of visible ASCII characters');
const url = z
  .string()
  .max(512)
  .refine(isAddress, 'must be an http or https address without user, password, ? and #')
  .transform((value) => value.replace(/\/+$/, ''));

const serverFields = {
  api: z.enum(UPSTREAM_APIS).optional(),
  model: z.string().min(1).max(256).optional(),
  key: visible.max(4096).nullable().optional(),
  /** The variable of the environment that holds the key. */
  key_variable: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be the name of a variable')
    .optional(),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/, 'must be the name of a header'), visible.max(4096))
    .optional(),
  weight: z.number().int().min(1).max(1000).optional(),
};

type ServerFields = z.infer<z.ZodObject<typeof serverFields>>;

const MAX_SERVERS = 64;

/** A key whose variable is not set is an issue: a server that is asked without its key answers nothing. */
export const upstreamSchema: z.ZodType<Upstream> = z
  .strictObject({
    ...serverFields,
    url: url.optional(),
    /** Several; what they leave open is as beside them. */
    servers: z
      .array(z.strictObject({ ...serverFields, url }))
      .min(1)
      .max(MAX_SERVERS)
      .optional(),
    fallback: z.string().min(1).max(128).nullable().optional(),
    images: z.boolean().optional(),
    thinking: z.enum(['reasoning_effort', 'enable_thinking', 'none']).optional(),
    thinking_field: z.enum(['reasoning_content', 'reasoning', 'none']).optional(),
    structured_outputs: z.enum(['json_schema', 'json_object', 'vllm', 'llama-server', 'monolith', 'none']).optional(),
    cap_field: z.enum(['max_tokens', 'max_completion_tokens']).optional(),
  })
  .superRefine((value, context) => {
    if ((value.url === undefined) === (value.servers === undefined)) {
      context.addIssue({ code: 'custom', path: ['url'], message: 'must be given, or else servers, with one each' });
    }
    for (const { key_variable: name } of [value, ...(value.servers ?? [])] as readonly ServerFields[]) {
      if (name !== undefined && (process.env[name] ?? '') === '')
        context.addIssue({ code: 'custom', path: ['key_variable'], message: `the variable ${name} is not set` });
    }
  })
  .transform(
    ({
      url: single,
      servers,
      fallback,
      images,
      thinking,
      thinking_field,
      structured_outputs,
      cap_field,
      ...shared
    }): Upstream => ({
      servers: (servers ?? [{ url: single ?? '' }]).map((one) => serverOf(one.url, one, shared)),
      fallback: fallback ?? null,
      images: images ?? false,
      thinking: thinking ?? 'reasoning_effort',
      thinking_field: thinking_field ?? 'reasoning_content',
      structured_outputs: structured_outputs ?? 'json_schema',
      cap_field: cap_field ?? 'max_tokens',
    }),
  );

function serverOf(address: string, own: ServerFields, shared: ServerFields): UpstreamServer {
  return {
    url: address,
    api: own.api ?? shared.api ?? 'chat-completions',
    model: own.model ?? shared.model ?? null,
    weight: own.weight ?? shared.weight ?? 1,
    key: keyOf(own) ?? keyOf(shared) ?? null,
    headers: { ...shared.headers, ...own.headers },
  };
}

const keyOf = ({ key, key_variable: name }: ServerFields): string | null | undefined =>
  name === undefined ? key : process.env[name];

/** A model that is nothing but an address: --model NAME=http://127.0.0.1:8000/v1. */
export const upstreamOfAddress = (address: string): Upstream => upstreamSchema.parse({ url: address });
