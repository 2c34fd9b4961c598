"use strict";
/* Elements, numbers and arrays. Text only ever becomes textContent. */

const SVG = "http://www.w3.org/2000/svg";
const MINUS = "\u2212";

/** h("td", {class: "text"}, "words", child): an element. */
function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") element.style.cssText = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A number for people: two decimals, none where it is large. */
function text(value, digits) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const places = digits !== undefined ? digits : Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : 2;
  const words = Math.abs(value).toFixed(places);
  const isZero = Number(words) === 0;
  return (value < 0 && !isZero ? MINUS : "") + words.replace(/\B(?=(\d{3})+(?!\d))/g, places === 0 ? "," : "");
}

/** An uncertainty may be of any size. */
function small(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.01 || size >= 1e5)) return value.toExponential(1).replace("-", MINUS);
  return text(value, size < 1 ? 3 : 2);
}

function interval(pair) {
  return pair ? `[${text(pair[0])}, ${text(pair[1])}]` : "";
}

function bytes(encoded) {
  const raw = atob(encoded);
  const array = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) array[i] = raw.charCodeAt(i);
  return array;
}

const floats = (encoded) => new Float32Array(bytes(encoded).buffer);
const shorts = (encoded) => new Int16Array(bytes(encoded).buffer);

/** Colours that would vanish on a dark page follow the page's ink. */
function ink(colour) {
  return { "#111111": "var(--ink)", "#6B6B6B": "var(--dim)", "#0072B2": "var(--blue)" }[colour] || colour;
}

const PALETTE = ["#0072B2", "#E69F00", "#CC79A7", "#6B6B6B", "#56B4E9", "#009E73", "#D55E00", "#8C6D31", "#5E3C99"];

function select(label, options, chosen, onchange) {
  const box = h("select", { onchange: (event) => onchange(event.target.value) });
  for (const [value, words] of options) {
    box.append(h("option", { value, selected: String(value) === String(chosen) }, words));
  }
  return h("label", {}, label, box);
}

function legend(items) {
  return h("ul", { class: "legend" }, items.map(([colour, words, kind]) =>
    h("li", {}, h("i", { class: kind || "", style: kind ? "" : `background:${ink(colour)}` }), words)));
}
