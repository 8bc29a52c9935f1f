// Creates a self-signed certificate for a test's HTTPS server at run time, so that no certificate in the repository can
// expire.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';

const der = (tag: number, ...contents: readonly (Uint8Array | string)[]): Buffer => {
  const content = Buffer.concat(contents.map((part) => Buffer.from(part as string)));
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
};
const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
const oid = (...bytes: readonly number[]): Buffer => der(0x06, Uint8Array.from(bytes));
const utcTime = (date: Date): Buffer => der(0x17, `${date.toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`);

/** Returns the key and certificate as PEM. The certificate is its own CA and is valid for these hosts. */
export function selfSigned(hosts: readonly string[]): { key: string; cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'prime256v1',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const algorithm = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)); // ecdsa-with-SHA256
  const name = sequence(der(0x31, sequence(oid(0x55, 0x04, 0x03), der(0x0c, hosts[0]!)))); // CN
  const names = sequence(...hosts.map((host) => der(0x82, host))); // dNSName
  const extension = (id: readonly number[], value: Buffer): Buffer => sequence(oid(...id), der(0x04, value));
  const day = 86_400_000;
  const body = sequence(
    der(0xa0, der(0x02, Uint8Array.of(2))), // version 3
    der(0x02, Uint8Array.of(1)),
    algorithm,
    name,
    sequence(utcTime(new Date(Date.now() - day)), utcTime(new Date(Date.now() + day))),
    name,
    publicKey,
    der(
      0xa3,
      sequence(
        extension([0x55, 0x1d, 0x11], names),
        extension([0x55, 0x1d, 0x13], sequence(der(0x01, Uint8Array.of(0xff)))), // CA: true
      ),
    ),
  );
  const signature = sign('sha256', body, createPrivateKey(privateKey));
  const whole = sequence(body, algorithm, der(0x03, Uint8Array.of(0), signature));
  return {
    key: privateKey,
    cert: `-----BEGIN CERTIFICATE-----\n${whole.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  };
}
