/** Whether the next version of this server will no longer support a Node.js version, such as `20.17.0`. */
export const isDeprecatedNode = (version: string): boolean => version.startsWith('20.');
