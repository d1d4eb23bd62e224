{{/* The name of all objects. */}}
{{- define "isotherm.name" -}}
{{- $base := .Chart.Name -}}
{{- if contains $base .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $base | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "isotherm.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "isotherm.labels" -}}
{{ include "isotherm.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: agent
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "isotherm.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* Whether helm asks a cluster (it does not in `helm template`): every cluster has namespaces. */}}
{{- define "isotherm.cluster" -}}
{{- if (lookup "v1" "Namespace" "" "").items -}}yes{{- end -}}
{{- end }}

{{/* The namespaces that have the label of acting.namespaceLabel: a list as JSON. */}}
{{- define "isotherm.labelled" -}}
{{- $all := list -}}
{{- if and .Values.acting.enabled .Values.acting.namespaceLabel -}}
{{- $want := splitn "=" 2 .Values.acting.namespaceLabel -}}
{{- range (lookup "v1" "Namespace" "" "").items -}}
{{- if eq (get (.metadata.labels | default dict) $want._0) $want._1 -}}
{{- $all = append $all .metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $all | sortAlpha | toJson -}}
{{- end }}

{{/* Those of them that a label cannot opt in: the agent's own, and what the cluster runs on. */}}
{{- define "isotherm.leftOut" -}}
{{- $all := list -}}
{{- range include "isotherm.labelled" . | fromJsonArray -}}
{{- if or (eq . $.Release.Namespace) (hasPrefix "kube-" .) -}}{{- $all = append $all . -}}{{- end -}}
{{- end -}}
{{- $all | toJson -}}
{{- end }}

{{/* The namespaces that agreed to be acted on: a list as JSON, sorted. */}}
{{- define "isotherm.namespaces" -}}
{{- $all := list -}}
{{- if .Values.acting.enabled -}}
{{- $leftOut := include "isotherm.leftOut" . | fromJsonArray -}}
{{- $all = .Values.acting.namespaces -}}
{{- range include "isotherm.labelled" . | fromJsonArray -}}
{{- if not (has . $leftOut) -}}{{- $all = append $all . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $all | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* In words, where it acts and why not elsewhere. */}}
{{- define "isotherm.actsIn" -}}
{{- $namespaces := include "isotherm.namespaces" . | fromJsonArray -}}
{{- $label := .Values.acting.namespaceLabel -}}
{{- if $namespaces }}{{ join ", " $namespaces }}{{ else }}nothing{{ end -}}
{{- if and .Values.acting.enabled $label -}}
{{- if not (include "isotherm.cluster" .) }}; the label {{ $label }} was not read, because no cluster was asked
{{- else if not (include "isotherm.labelled" . | fromJsonArray) }}; no namespace has the label {{ $label }}{{ end -}}
{{- with include "isotherm.leftOut" . | fromJsonArray }}; the label is ignored on {{ join ", " . }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Bytes of a quantity of Kubernetes: a number of YAML, or text as "1.5Gi" and "512e6". */}}
{{- define "isotherm.bytes" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?" $text -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- $unit := trimPrefix $number $text -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "\n%s is no amount of memory\n  hint:  a number with a unit, such as 512Mi, 1.5Gi or 500M" $text) -}}
{{- end -}}
{{- mulf ($number | float64) (get $units $unit) | floor | int64 -}}
{{- end }}
