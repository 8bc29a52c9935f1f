// Sample requests for users to copy. They use the server address from the page's URL.
export interface Snippet {
  value: 'curl' | 'python' | 'javascript';
  label: string;
  code: string;
}

export function snippets(key: string, model: string): Snippet[] {
  const base = `${location.origin}/v1`;
  return [
    {
      value: 'curl',
      label: 'curl',
      code: `curl ${base}/chat/completions \\
  -H "Authorization: Bearer ${key}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello!"}]}'`,
    },
    {
      value: 'python',
      label: 'Python',
      code: `from openai import OpenAI

client = OpenAI(base_url="${base}", api_key="${key}")
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.choices[0].message.content)`,
    },
    {
      value: 'javascript',
      label: 'JavaScript',
      code: `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: '${base}', apiKey: '${key}' });
const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Hello!' }],
});
console.log(answer.choices[0].message.content);`,
    },
  ];
}
