# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The architectures of each release.

Source: the registries of 73 wheels, 0.2.7 to 0.33.0 (vllm/model_executor/models/__init__.py, from 0.6.3 on registry.py), and the classes that they name:
which of them have SupportsPP and SupportsLoRA (before those were there: supported_lora_modules) among their bases. Of 0.21.0 there is no wheel: what 0.22.0
is the first to have may be in 0.21.0. Drafts for speculative decoding are left out. A release that was not examined
has what its post-release has, and those before 0.2.7 what that has (0.0).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class Entry(NamedTuple):
    """An architecture in a row of releases."""

    kind: str  # text, multimodal, pooling (embeddings, scores, classes), transformers (runs through the Transformers library)
    since: str
    last: str | None  # None: still there
    pipelines: str | None  # the first release that runs it in pipeline stages, from 0.6.3 on
    lora: str | None  # the first release that takes adapters for it


# Releases that run an architecture which they do not have through the Transformers library, if that has a class which fits
# (resolve_transformers_fallback in vllm/model_executor/model_loader/utils.py), and those that make a text model into one for embeddings or classes by the
# end of its name (_SUFFIX_TO_DEFAULTS in vllm/config, _normalize_arch in registry.py): the ends with the first release, and the ends of text models.
TRANSFORMERS_SINCE = "0.7.2"
CONVERTED = {
    "ForTextEncoding": "0.10.1",
    "EmbeddingModel": "0.10.1",
    "ForSequenceClassification": "0.10.0",
    "ClassificationModel": "0.10.1",
    "ForRewardModeling": "0.10.1",
    "RewardModel": "0.10.1",
    "Model": "0.10.1",
}
GENERATING = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")

# Name, kind, first release, last release (-: still there), pipeline stages since, LoRA since (-: never).
_REGISTRY = """
AfmoeForCausalLM text 0.11.1 - 0.11.1 0.11.1
AliceAIForCausalLM text 0.33.0 - - 0.33.0
Alpamayo2Super multimodal 0.33.0 - 0.33.0 0.33.0
ApertusForCausalLM text 0.10.2 - 0.10.2 0.10.2
AquilaForCausalLM text 0.0 0.24.0 0.6.3 0.3.1
AquilaModel text 0.0 0.24.0 0.6.3 0.3.1
ArceeForCausalLM transformers 0.10.0 - 0.10.0 0.10.0
ArcticForCausalLM text 0.4.3 0.28.0 0.6.3 -
AriaForConditionalGeneration multimodal 0.6.5 - - -
AudioFlamingo3ForConditionalGeneration multimodal 0.13.0 - 0.13.0 0.13.0
AXK1ForCausalLM text 0.17.0 - 0.17.0 0.17.0
AyaVisionForConditionalGeneration multimodal 0.8.3 0.24.0 0.8.3 -
BagelForConditionalGeneration multimodal 0.13.0 - 0.13.0 0.13.0
BaiChuanForCausalLM text 0.0 0.24.0 0.6.3 0.4.0
BaichuanForCausalLM text 0.0 0.24.0 0.6.3 0.4.0
BailingMoeForCausalLM text 0.10.0 - 0.10.0 0.10.0
BailingMoeV2_5ForCausalLM text 0.17.0 - 0.17.0 -
BailingMoeV2ForCausalLM text 0.11.0 - 0.11.0 0.11.0
BailingMoeV3ForCausalLM text 0.28.0 - 0.28.0 -
BailingMoeV3VLForConditionalGeneration multimodal 0.30.0 - 0.30.0 -
BambaForCausalLM text 0.7.3 0.23.0 0.7.3 0.7.3
BartForConditionalGeneration text 0.5.5 0.10.2 - -
BartModel text 0.5.5 0.10.2 - -
BeamForCausalLM text 0.33.0 - 0.33.0 -
BeeForConditionalGeneration multimodal 0.11.1 - 0.11.1 -
BertForMaskedLM pooling 0.26.0 - - -
BertForSequenceClassification pooling 0.6.5 - - 0.33.0
BertForTokenClassification pooling 0.11.0 - - 0.33.0
BertModel pooling 0.6.4 - - 0.32.0
BertSpladeSparseEmbeddingModel pooling 0.11.1 - - 0.32.0
BgeM3EmbeddingModel pooling 0.15.0 - - 0.32.0
Blip2ForConditionalGeneration multimodal 0.5.4 - 0.6.3 0.14.0
BloomForCausalLM text 0.0 - 0.6.3 -
ChameleonForCausalLM text 0.5.3 0.5.3.post1 - -
ChameleonForConditionalGeneration multimodal 0.5.3 0.28.0 0.6.3 -
ChatGLMForConditionalGeneration text 0.0 0.7.2 0.6.4 0.4.0
ChatGLMForConditionalGeneration text 0.8.4 - 0.6.4 0.4.0
ChatGLMModel text 0.0 - 0.6.4 0.4.0
Cheers multimodal 0.20.0 0.28.0 0.20.0 0.20.0
CheersForConditionalGeneration multimodal 0.20.0 0.28.0 0.20.0 0.20.0
ClefFlashForJointSchema pooling 0.33.0 - 0.33.0 0.33.0
ClefOmniForJointSchema pooling 0.32.0 - 0.32.0 0.32.0
CLIPModel pooling 0.11.1 - - -
Cohere2ForCausalLM text 0.6.5 - 0.6.5 0.6.5
Cohere2MoeForCausalLM text 0.22.0 - 0.22.0 -
Cohere2VisionForConditionalGeneration multimodal 0.10.1 - 0.10.1 -
CohereAsrForConditionalGeneration multimodal 0.19.0 - - -
CohereCompassForConditionalGeneration multimodal 0.30.0 - 0.30.0 0.30.0
CohereForCausalLM text 0.4.0 - 0.6.3 0.5.1
ColBERTJinaRobertaModel pooling 0.17.0 - - -
ColBERTLfm2Model pooling 0.19.0 - - -
ColBERTModernBertModel pooling 0.17.0 - - -
ColModernVBertForRetrieval pooling 0.17.0 - - -
ColPaliForRetrieval pooling 0.18.0 - 0.18.0 0.18.0
ColQwen3 pooling 0.17.0 - 0.17.0 0.17.0
ColQwen3_5 pooling 0.19.0 - 0.19.0 0.19.0
ColUltraVBertForRetrieval pooling 0.33.0 - - -
Cosmos3EdgeForConditionalGeneration multimodal 0.26.0 - 0.26.0 -
Cosmos3ForConditionalGeneration multimodal 0.23.0 - 0.23.0 0.23.0
CwmForCausalLM transformers 0.11.0 - 0.11.0 0.11.0
D3ForSequenceClassification pooling 0.33.0 - - -
DbrxForCausalLM text 0.4.0 - 0.6.3 -
DeciLMForCausalLM text 0.0 - 0.6.3 0.3.1
DeepseekForCausalLM text 0.3.0 - 0.6.3 0.10.2
DeepseekOCR2ForCausalLM multimodal 0.16.0 - 0.16.0 0.16.0
DeepseekOCRForCausalLM multimodal 0.11.1 - 0.11.1 0.14.0
DeepseekV2ForCausalLM text 0.5.1 - 0.6.3 0.10.2
DeepseekV32ForCausalLM text 0.11.0 - 0.11.0 0.11.0
DeepseekV3BidirectionalModel pooling 0.29.0 - 0.29.0 0.29.0
DeepseekV3ForCausalLM text 0.6.6 - 0.6.6 0.10.2
DeepseekV41ForCausalLM multimodal 0.30.0 - 0.30.0 -
DeepseekV4ForCausalLM text 0.20.0 - 0.22.0 -
DeepseekV4ForConditionalGeneration multimodal 0.30.0 - - -
DeepseekVLV2ForCausalLM multimodal 0.7.0 - 0.7.0 -
DiffusionGemmaForBlockDiffusion multimodal 0.24.0 - 0.24.0 -
DomynEdgeForCausalLM text 0.33.0 - - -
DonutForConditionalGeneration multimodal 0.10.2 0.10.2 - -
DoryForCausalLM text 0.33.0 - - -
Dots1ForCausalLM text 0.9.2 0.23.0 0.9.2 0.10.1
Dots3NoteForCausalLM multimodal 0.28.0 - 0.28.0 -
DotsOCRForCausalLM multimodal 0.11.0 - 0.11.0 0.11.0
Eagle2_5_VLForConditionalGeneration multimodal 0.15.0 - 0.15.0 0.15.0
EmbeddingGemma2Model pooling 0.32.0 - - -
Emu3ForConditionalGeneration transformers 0.10.1 - 0.10.1 0.10.1
Ernie4_5_ForCausalLM text 0.9.2 0.10.0 0.9.2 0.9.2
Ernie4_5_MoeForCausalLM text 0.9.2 - 0.9.2 0.10.0
Ernie4_5_VLMoeForConditionalGeneration multimodal 0.10.2 - 0.10.2 0.10.2
Ernie4_5ForCausalLM text 0.10.1 - 0.10.1 0.10.1
ErnieForSequenceClassification pooling 0.18.0 0.23.0 - -
ErnieForTokenClassification pooling 0.18.0 0.23.0 - -
ErnieModel pooling 0.18.0 0.23.0 - -
Exaone4_5_ForConditionalGeneration multimodal 0.20.0 - 0.20.0 0.20.0
Exaone4ForCausalLM text 0.10.0 - 0.10.0 0.10.0
ExaoneForCausalLM text 0.6.0 - 0.6.3 0.6.0
ExaoneMoEForCausalLM text 0.14.0 0.26.0 0.14.0 0.14.0
ExaoneMoEForCausalLM text 0.32.0 - 0.14.0 0.14.0
ExaoneMoeForCausalLM text 0.27.0 - 0.27.0 0.27.0
Fairseq2LlamaForCausalLM text 0.7.0 0.28.0 0.7.0 0.7.0
FalconForCausalLM text 0.0 - 0.6.3 -
FalconH1ForCausalLM text 0.9.0 - 0.9.0 0.9.0
FalconMambaForCausalLM text 0.6.4 - 0.6.5 -
FireRedASR2ForConditionalGeneration multimodal 0.17.0 - - -
FireRedLIDForConditionalGeneration multimodal 0.20.0 0.28.0 - -
FlexOlmoForCausalLM transformers 0.11.1 - 0.11.1 0.11.1
FlintForCausalLM text 0.33.0 - 0.33.0 -
Florence2ForConditionalGeneration multimodal 0.6.4 0.10.2 - -
FunASRForConditionalGeneration multimodal 0.17.0 - - -
FunAudioChatForConditionalGeneration multimodal 0.16.0 - 0.16.0 -
FuyuForCausalLM multimodal 0.5.2 0.25.1 0.6.3 -
Gemma2ForCausalLM text 0.5.1 - 0.6.3 0.5.1
Gemma2Model pooling 0.6.3 - 0.6.3 0.6.5
Gemma3ForCausalLM text 0.8.0 - 0.8.0 0.8.0
Gemma3ForConditionalGeneration multimodal 0.8.0 - 0.8.0 0.8.0
Gemma3nForCausalLM text 0.10.1 - - -
Gemma3nForConditionalGeneration multimodal 0.9.2 - - -
Gemma3TextModel pooling 0.10.2 - - -
Gemma4ForCausalLM text 0.19.0 - 0.19.0 0.19.0
Gemma4ForConditionalGeneration multimodal 0.19.0 - 0.19.0 0.20.0
Gemma4UnifiedForConditionalGeneration multimodal 0.23.0 - 0.23.0 0.23.0
GemmaForCausalLM text 0.3.2 - 0.6.3 0.3.3
Glm4ForCausalLM text 0.8.4 - 0.8.4 0.8.4
Glm4MoeForCausalLM text 0.10.0 - 0.10.0 0.10.1
Glm4MoeLiteForCausalLM text 0.15.0 - 0.15.0 0.15.0
GLM4VForCausalLM multimodal 0.7.3 - 0.7.3 0.7.3
Glm4vForConditionalGeneration multimodal 0.9.2 - 0.9.2 0.9.2
Glm4vMoeForConditionalGeneration multimodal 0.10.1 - 0.10.1 0.10.1
Glm5NextForCausalLM text 0.30.0 - 0.30.0 -
Glm5NextForConditionalGeneration multimodal 0.30.0 - 0.30.0 0.30.0
GlmAsrForConditionalGeneration multimodal 0.14.0 - 0.14.0 0.14.0
GlmForCausalLM transformers 0.6.5 - 0.6.5 0.6.5
GlmMoeDsaForCausalLM text 0.16.0 - 0.16.0 0.16.0
GlmOcrForConditionalGeneration multimodal 0.16.0 - 0.16.0 0.16.0
GPT2ForSequenceClassification pooling 0.9.2 - - -
GPT2LMHeadModel text 0.0 - 0.6.3 -
GPTBigCodeForCausalLM transformers 0.0 - 0.6.3 0.4.3
GPTJForCausalLM text 0.0 - 0.6.3 -
GPTNeoXForCausalLM transformers 0.0 - 0.6.3 0.32.0
GptOssForCausalLM text 0.10.1 - 0.10.2 0.11.1
Granite4VisionForConditionalGeneration multimodal 0.20.0 - 0.20.0 0.20.0
GraniteForCausalLM text 0.6.0 - 0.6.3 0.6.0
GraniteMoeForCausalLM text 0.6.3 - 0.6.3 0.6.3
GraniteMoeHybridForCausalLM text 0.9.0 - 0.9.0 0.9.0
GraniteMoeSharedForCausalLM text 0.8.0 - 0.8.0 0.8.0
GraniteMoeSWAForCausalLM text 0.29.0 - 0.29.0 0.29.0
GraniteSpeechForConditionalGeneration multimodal 0.8.5 - 0.8.5 0.8.5
GraniteSpeechPlusForConditionalGeneration multimodal 0.23.0 - 0.23.0 0.23.0
GraniteSWAForCausalLM text 0.29.0 - 0.29.0 0.29.0
GritLM text 0.6.5 0.28.0 0.6.5 0.6.5
Grok1ForCausalLM text 0.14.0 0.24.0 0.14.0 0.14.0
Grok1ModelForCausalLM text 0.8.0 0.24.0 0.8.0 0.8.0
GteModel pooling 0.8.5 - - -
GteNewForSequenceClassification pooling 0.10.2 - - -
GteNewModel pooling 0.9.0 - - -
H2OVLChatModel multimodal 0.6.4 - 0.6.4 0.9.1
HCXVisionForCausalLM text 0.10.1 0.28.0 0.10.1 -
HCXVisionV2ForCausalLM text 0.18.0 - 0.18.0 -
HF_ColBERT pooling 0.16.0 - - 0.32.0
HfMoondream multimodal 0.22.0 - 0.22.0 -
HrmTextForCausalLM text 0.24.0 - - -
HunYuanDenseV1ForCausalLM transformers 0.10.0 - 0.10.2 0.10.0
HunYuanMoEV1ForCausalLM transformers 0.9.2 - 0.10.2 0.10.0
HunYuanVLForConditionalGeneration transformers 0.12.0 - 0.12.0 0.12.0
HyperCLOVAXForCausalLM text 0.18.0 - 0.18.0 0.18.0
HYV3ForCausalLM text 0.20.0 - 0.20.0 0.20.0
HYV4ForCausalLM text 0.29.0 - 0.29.0 0.29.0
Idefics3ForConditionalGeneration multimodal 0.6.4 - - 0.6.4
InklingForCausalLM text 0.26.0 - 0.26.0 0.26.0
InklingForConditionalGeneration text 0.26.0 - 0.26.0 0.26.0
InternLM2ForCausalLM text 0.3.1 - 0.6.3 0.6.5
InternLM2ForRewardModel pooling 0.7.0 - 0.7.0 0.7.0
InternLM2VEForCausalLM text 0.6.4 0.23.0 0.6.4 0.6.5
InternLM3ForCausalLM text 0.7.0 - 0.7.0 0.7.0
InternLMForCausalLM text 0.0 0.23.0 0.6.3 0.3.1
InternS1ForConditionalGeneration multimodal 0.10.1 - 0.10.1 0.10.1
InternS1ProForConditionalGeneration multimodal 0.16.0 - 0.16.0 0.16.0
InternS2MobiusForConditionalGeneration multimodal 0.28.0 - 0.28.0 0.28.0
InternS2PreviewForConditionalGeneration multimodal 0.22.0 - 0.22.0 0.22.0
InternVLChatModel multimodal 0.5.4 - 0.6.3 0.9.1
InternVLForConditionalGeneration multimodal 0.10.2 - 0.10.2 0.10.2
IQuestCoderForCausalLM text 0.14.0 - 0.14.0 0.14.0
IQuestLoopCoderForCausalLM text 0.14.0 - - -
IsaacForConditionalGeneration multimodal 0.14.0 - 0.14.0 0.14.0
Jais2ForCausalLM transformers 0.13.0 - 0.13.0 0.13.0
JAISLMHeadModel text 0.4.0 0.22.1 0.6.3 -
JambaForCausalLM text 0.5.1 - 0.6.5 0.5.1
JambaForSequenceClassification pooling 0.6.6 - 0.6.6 0.6.6
JinaEmbeddingsV5Model pooling 0.20.0 - 0.20.0 0.20.0
JinaForRanking pooling 0.20.0 - - -
JinaVLForRanking pooling 0.10.0 - 0.10.0 0.10.0
K2HorizonForCausalLM text 0.30.0 - 0.30.0 0.30.0
KananaVForConditionalGeneration multimodal 0.14.0 - 0.14.0 -
KeyeForConditionalGeneration multimodal 0.9.2 - 0.9.2 0.9.2
KeyeVL1_5ForConditionalGeneration multimodal 0.10.2 - 0.10.2 0.10.2
KimiK25ForConditionalGeneration multimodal 0.15.0 - 0.15.0 -
KimiK3ForConditionalGeneration multimodal 0.27.0 - 0.27.0 -
KimiLinearForCausalLM text 0.11.1 - 0.11.1 -
KimiVLForConditionalGeneration multimodal 0.8.5 - 0.10.2 -
Kolibri1ForCausalLM transformers 0.33.0 - 0.33.0 0.33.0
LagunaForCausalLM text 0.22.0 - 0.22.0 0.22.0
Lfm2BidirectionalModel pooling 0.33.0 - - -
Lfm2ForCausalLM text 0.10.2 - 0.10.2 0.10.2
Lfm2MoeForCausalLM text 0.11.1 - 0.11.1 0.11.1
Lfm2VlForConditionalGeneration multimodal 0.14.0 - 0.14.0 0.14.0
LightOnOCRForConditionalGeneration multimodal 0.11.1 - 0.11.1 0.11.1
Llama4ForCausalLM text 0.8.3 0.8.3 0.8.3 0.8.3
Llama4ForCausalLM text 0.10.1 - 0.8.3 0.8.3
Llama4ForConditionalGeneration multimodal 0.8.3 - 0.8.4 0.11.1
Llama_Nemotron_Nano_VL multimodal 0.10.0 - 0.10.0 0.10.0
LlamaBidirectionalForSequenceClassification pooling 0.14.0 - - -
LlamaBidirectionalModel pooling 0.14.0 - - -
LLaMAForCausalLM text 0.0 - 0.6.3 0.3.1
LlamaForCausalLM text 0.0 - 0.6.3 0.3.1
LlamaModel pooling 0.6.4 - 0.6.4 0.6.4
LlamaNemotronVLForSequenceClassification pooling 0.17.0 - 0.17.0 0.17.0
LlamaNemotronVLModel pooling 0.17.0 - 0.17.0 0.17.0
LlavaForConditionalGeneration multimodal 0.4.0 - 0.6.3 0.14.0
LlavaNextForConditionalGeneration multimodal 0.5.0 - 0.6.3 0.29.0
LlavaNextVideoForConditionalGeneration multimodal 0.6.1 - 0.6.3 0.26.0
LlavaOnevision2ForConditionalGeneration multimodal 0.25.0 - 0.25.0 -
LlavaOnevisionForConditionalGeneration multimodal 0.6.2 - 0.6.3 -
LongcatFlashForCausalLM text 0.11.0 - 0.11.0 0.11.0
LongcatFlashNgramForCausalLM text 0.26.0 - 0.26.0 0.26.0
Mamba2ForCausalLM text 0.7.3 - - -
MambaForCausalLM text 0.6.3 - 0.6.5 -
MantisForConditionalGeneration multimodal 0.6.5 0.24.0 0.6.5 0.14.0
MBartForConditionalGeneration text 0.10.1 0.10.2 - -
MellumForCausalLM transformers 0.22.1 - 0.22.1 0.22.1
MiDashengLMModel multimodal 0.10.2 - 0.10.2 -
MiMoForCausalLM text 0.9.0 - 0.9.0 0.9.0
MiMoV2FlashForCausalLM text 0.14.0 - 0.14.0 -
MiMoV2ForCausalLM text 0.22.0 - 0.22.0 -
MiMoV2OmniForCausalLM multimodal 0.22.0 - 0.22.0 -
MiniCPM3ForCausalLM text 0.6.2 - 0.6.3 0.6.2
MiniCPMForCausalLM text 0.4.1 - 0.6.3 0.4.1
MiniCPMO multimodal 0.7.1 - 0.7.1 0.7.1
MiniCPMOcrForConditionalGeneration multimodal 0.33.0 - 0.33.0 0.33.0
MiniCPMV multimodal 0.5.4 - 0.6.3 0.6.3
MiniCPMV4_6ForConditionalGeneration multimodal 0.22.0 - 0.22.0 0.25.0
MiniCPMV4_7ForConditionalGeneration multimodal 0.32.0 - 0.32.0 0.32.0
MiniMaxForCausalLM text 0.10.0 0.23.0 - -
MiniMaxM1ForCausalLM text 0.9.2 0.23.0 - -
MiniMaxM2ForCausalLM text 0.11.1 - 0.11.1 0.15.0
MiniMaxM3SparseForCausalLM text 0.24.0 - 0.25.0 -
MiniMaxM3SparseForConditionalGeneration multimodal 0.24.0 - 0.25.0 -
MiniMaxText01ForCausalLM text 0.8.3 0.23.0 - -
MiniMaxVL01ForConditionalGeneration multimodal 0.9.0 0.23.0 0.9.0 -
Ministral3ForCausalLM text 0.20.0 - 0.20.0 0.20.0
Mistral3ForConditionalGeneration multimodal 0.8.3 - 0.8.3 0.9.0
MistralForCausalLM text 0.0 - 0.6.3 0.3.1
MistralLarge3ForCausalLM text 0.12.0 - 0.12.0 0.12.0
MistralModel pooling 0.4.3 - 0.6.3 0.6.4
MixtralForCausalLM text 0.0 - 0.6.3 0.3.1
MllamaForConditionalGeneration multimodal 0.6.2 0.10.2 - -
ModernBertForSequenceClassification pooling 0.8.5 - - -
ModernBertForTokenClassification pooling 0.11.1 - - -
ModernBertModel pooling 0.9.0 - - 0.31.0
ModernVBertModel pooling 0.33.0 - - -
Molmo2ForConditionalGeneration multimodal 0.15.0 - 0.15.0 0.15.0
MolmoForCausalLM multimodal 0.6.3 - 0.6.4 0.7.0
Moondream3ForCausalLM multimodal 0.22.0 - 0.22.0 -
MoonshotKimiaForCausalLM multimodal 0.18.0 - 0.18.0 -
MossAudioModel multimodal 0.24.0 - 0.24.0 0.24.0
MossTranscribeDiarizeForConditionalGeneration multimodal 0.25.0 - 0.25.0 -
MotifForCausalLM text 0.10.2 0.11.0 0.10.2 0.10.2
MPTForCausalLM text 0.0 0.28.0 0.6.3 -
MptForCausalLM text 0.0 0.28.0 0.6.3 -
MuseGlimmerForCausalLM text 0.28.0 - 0.28.0 0.28.0
MuseGlimmerForConditionalGeneration multimodal 0.28.0 - 0.28.0 0.28.0
MuseSparkForConditionalGeneration multimodal 0.33.0 - 0.33.0 0.33.0
MusicFlamingoForConditionalGeneration multimodal 0.16.0 0.24.0 0.16.0 0.16.0
NanbeigeForCausalLM transformers 0.30.0 - 0.30.0 0.30.0
NemotronForCausalLM text 0.5.4 - 0.6.3 0.5.4
NemotronH_Nano_Omni_Reasoning_V3 multimodal 0.20.0 - - 0.31.0
NemotronH_Nano_VL multimodal 0.10.2 0.10.2 - -
NemotronH_Nano_VL_V2 multimodal 0.11.0 - - 0.31.0
NemotronH_Omni_Reasoning_V3 multimodal 0.29.0 - - 0.31.0
NemotronH_Super_Omni_Reasoning_V3 multimodal 0.20.0 - - 0.31.0
NemotronHForCausalLM text 0.9.1 - 0.9.1 0.9.1
NemotronHPuzzleForCausalLM text 0.16.0 - 0.16.0 0.16.0
NemotronParseForConditionalGeneration multimodal 0.14.0 - - -
NomicBertModel pooling 0.8.5 - - -
NVLM_D multimodal 0.6.3 - 0.6.3 0.9.1
Olmo2ForCausalLM transformers 0.6.5 - 0.6.5 0.10.2
Olmo3ForCausalLM transformers 0.11.0 - 0.11.0 0.11.0
OlmoeForCausalLM text 0.6.2 - 0.6.3 0.11.1
OLMoForCausalLM text 0.3.2 0.4.1 - -
OlmoForCausalLM transformers 0.4.2 - 0.6.3 0.10.2
OlmoHybridForCausalLM text 0.18.0 - 0.18.0 0.18.0
OpenAIPrivacyFilterForTokenClassification pooling 0.25.0 - - -
OpenCUAForConditionalGeneration multimodal 0.12.0 - 0.12.0 0.12.0
OpenPanguVLForConditionalGeneration multimodal 0.16.0 - 0.16.0 0.16.0
OpenVLAForActionPrediction multimodal 0.22.0 - 0.22.0 -
OpsColQwen3Model pooling 0.17.0 - 0.17.0 0.17.0
OPTForCausalLM text 0.0 - 0.6.3 0.11.1
OrionForCausalLM text 0.3.3 - 0.6.3 -
OuroForCausalLM text 0.11.1 0.26.0 - 0.11.1
Ovis multimodal 0.9.0 - 0.9.1 -
Ovis2_5 multimodal 0.10.2 - 0.10.2 -
Ovis2_6_MoeForCausalLM multimodal 0.17.0 - 0.17.0 -
Ovis2_6ForCausalLM multimodal 0.17.0 - 0.17.0 -
PaddleOCRVLForConditionalGeneration multimodal 0.11.1 - - -
PaliGemmaForConditionalGeneration multimodal 0.5.2 - 0.6.3 0.14.0
PanguEmbeddedForCausalLM text 0.11.1 - 0.11.1 0.11.1
PanguProMoEV2ForCausalLM text 0.14.0 - 0.14.0 0.14.0
PanguUltraMoEForCausalLM text 0.11.1 - 0.11.1 0.11.1
Param2MoEForCausalLM text 0.20.0 - 0.20.0 0.20.0
PersimmonForCausalLM text 0.5.2 0.25.1 0.6.3 -
Phi3ForCausalLM text 0.4.2 - 0.6.3 0.4.2
Phi3SmallForCausalLM text 0.4.3 0.9.2 0.6.3 -
Phi3VForCausalLM multimodal 0.5.1 - 0.6.3 -
Phi4FlashForCausalLM text 0.10.0 0.10.2 - -
Phi4ForCausalLMV multimodal 0.20.0 - 0.20.0 -
Phi4MMForCausalLM multimodal 0.8.0 - - 0.8.0
Phi4MultimodalForCausalLM multimodal 0.10.1 0.12.0 - 0.10.1
PhiForCausalLM transformers 0.0 - 0.6.3 0.4.3
PhiMoEForCausalLM text 0.6.0 - 0.6.3 0.6.0
PixtralForConditionalGeneration multimodal 0.6.1 - 0.6.3 0.14.0
Plamo2ForCausalLM text 0.8.5 0.26.0 0.10.1 0.14.0
Plamo3ForCausalLM text 0.12.0 - 0.12.0 0.14.0
PrithviGeoSpatialMAE pooling 0.7.3 0.28.0 - -
QianfanOCRForConditionalGeneration multimodal 0.22.0 - 0.22.0 0.22.0
QuantMixtralForCausalLM text 0.3.0 0.10.1.1 0.6.3 -
Qwen2_5_VLForConditionalGeneration multimodal 0.7.2 - 0.7.2 0.7.2
Qwen2_5OmniForConditionalGeneration multimodal 0.9.0 - 0.9.0 0.10.2
Qwen2_5OmniModel multimodal 0.8.5 - 0.8.5 0.10.2
Qwen2AudioForConditionalGeneration multimodal 0.6.4 - 0.6.4 -
Qwen2ForCausalLM text 0.3.0 - 0.6.3 0.4.0
Qwen2ForProcessRewardModel pooling 0.7.0 - 0.7.0 0.7.0
Qwen2ForRewardModel pooling 0.6.3 - 0.6.3 0.6.3
Qwen2ForSequenceClassification pooling 0.6.4 0.9.2 0.6.4 0.6.4
Qwen2Model pooling 0.6.4 - 0.6.4 0.6.4
Qwen2MoeForCausalLM text 0.4.0 - 0.6.3 0.10.0
Qwen2VLForConditionalGeneration multimodal 0.6.1 - 0.6.3 0.6.4
Qwen3_5ForCausalLM text 0.27.0 - 0.27.0 0.27.0
Qwen3_5ForConditionalGeneration multimodal 0.17.0 - 0.17.0 0.17.0
Qwen3_5MoeForCausalLM text 0.27.0 - 0.27.0 0.27.0
Qwen3_5MoeForConditionalGeneration multimodal 0.17.0 - 0.17.0 0.17.0
Qwen3ASRForcedAlignerForTokenClassification pooling 0.19.0 - 0.19.0 0.20.0
Qwen3ASRForConditionalGeneration multimodal 0.16.0 - 0.16.0 0.20.0
Qwen3ASRRealtimeGeneration multimodal 0.17.0 - 0.17.0 0.20.0
Qwen3ForCausalLM text 0.8.4 - 0.8.4 0.8.4
Qwen3ForSequenceClassification pooling 0.9.2 0.9.2 - -
Qwen3MoeForCausalLM text 0.8.4 - 0.8.4 0.10.0
Qwen3NextForCausalLM text 0.10.2 - 0.10.2 0.10.2
Qwen3OmniMoeForConditionalGeneration multimodal 0.11.1 - 0.11.1 0.29.0
Qwen3VLForConditionalGeneration multimodal 0.11.0 - 0.11.0 0.11.0
Qwen3VLMoeForConditionalGeneration multimodal 0.11.0 - 0.11.0 0.11.0
Qwen3VLNemotronEmbedModel pooling 0.17.0 - 0.17.0 0.17.0
Qwen4ExpForCausalLM text 0.29.0 - 0.29.0 0.29.0
Qwen4ExpForConditionalGeneration multimodal 0.29.0 - 0.29.0 0.29.0
QWenLMHeadModel text 0.0 0.23.0 0.6.3 0.6.4
QwenVLForConditionalGeneration multimodal 0.7.3 0.23.0 0.7.3 0.7.3
RadioMBartPrefixForCausalLM multimodal 0.33.0 - - -
RForConditionalGeneration multimodal 0.10.2 - 0.10.2 -
Rnj1ForCausalLM text 0.20.0 - 0.20.0 0.20.0
RobertaForMaskedLM pooling 0.6.5 - - 0.32.0
RobertaForSequenceClassification pooling 0.6.5 - - 0.31.0
RobertaForTokenClassification pooling 0.26.0 - - -
RobertaModel pooling 0.6.4 - - 0.32.0
RWForCausalLM text 0.0 0.28.0 0.6.3 -
SarvamMLAForCausalLM text 0.18.0 - 0.18.0 0.18.0
SarvamMoEForCausalLM text 0.18.0 - 0.18.0 0.18.0
SeedOssForCausalLM transformers 0.10.2 - 0.10.2 0.10.2
SiglipModel pooling 0.11.1 - - -
SkyworkR1VChatModel multimodal 0.8.3 - 0.8.3 -
SmolLM3ForCausalLM transformers 0.10.1 - 0.10.1 0.10.1
SmolVLMForConditionalGeneration multimodal 0.8.4 - - 0.8.4
SolarForCausalLM text 0.6.2 - 0.6.3 0.6.2
StableLMEpochForCausalLM text 0.3.0 0.28.0 0.6.3 -
StableLmForCausalLM text 0.3.3 - 0.6.3 -
Starcoder2ForCausalLM transformers 0.3.3 - 0.6.3 0.25.0
Step1ForCausalLM text 0.15.0 - 0.15.0 -
Step3p5ForCausalLM text 0.15.1 - 0.15.1 -
Step3p7ForConditionalGeneration multimodal 0.23.0 - 0.23.0 -
Step3TextForCausalLM text 0.10.1 - 0.10.1 -
Step3VLForConditionalGeneration multimodal 0.10.1 - 0.10.1 -
Step5ForCausalLM text 0.33.0 - 0.33.0 0.33.0
Step5ForConditionalGeneration multimodal 0.33.0 - 0.33.0 0.33.0
StepVLForConditionalGeneration multimodal 0.15.0 - 0.15.0 -
Tarsier2ForConditionalGeneration multimodal 0.9.2 0.24.0 0.9.2 0.9.2
TarsierForConditionalGeneration multimodal 0.9.1 0.24.0 0.9.1 -
TeleChat2ForCausalLM text 0.6.5 - 0.6.5 0.6.5
TeleChat3ForCausalLM text 0.20.0 - 0.20.0 0.20.0
TeleChatForCausalLM text 0.12.0 0.25.1 0.12.0 0.12.0
TeleFLMForCausalLM text 0.8.2 - 0.8.2 0.8.2
Terratorch pooling 0.10.2 - - -
TransformersEmbeddingModel transformers 0.11.1 - 0.11.1 0.11.1
TransformersForCausalLM transformers 0.8.3 - 0.8.3 0.8.3
TransformersForMTP transformers 0.33.0 - 0.33.0 0.33.0
TransformersForMultimodalLM transformers 0.10.0 0.11.0 0.10.0 0.10.0
TransformersForSequenceClassification transformers 0.11.1 - 0.11.1 0.11.1
TransformersModel transformers 0.10.1 0.11.0 0.10.1 0.10.1
TransformersMoEEmbeddingModel transformers 0.11.1 - 0.11.1 0.11.1
TransformersMoEForCausalLM transformers 0.11.1 - 0.11.1 0.11.1
TransformersMoEForMTP transformers 0.33.0 - 0.33.0 0.33.0
TransformersMoEForSequenceClassification transformers 0.11.1 - 0.11.1 0.11.1
TransformersMultiModalEmbeddingModel transformers 0.11.1 - 0.11.1 0.11.1
TransformersMultiModalForCausalLM transformers 0.11.1 - 0.11.1 0.11.1
TransformersMultiModalForSequenceClassification transformers 0.11.1 - 0.11.1 0.11.1
TransformersMultiModalMoEForCausalLM transformers 0.11.1 - 0.11.1 0.11.1
UltravoxModel multimodal 0.5.5 - 0.6.3 0.7.2
UnlimitedOCRForCausalLM multimodal 0.25.0 - 0.25.0 0.25.0
VaultGemmaForCausalLM transformers 0.27.0 - 0.27.0 0.27.0
VibeVoiceAsrForConditionalGeneration transformers 0.27.0 - 0.27.0 0.27.0
VoxtralForConditionalGeneration multimodal 0.10.0 - 0.10.0 0.10.2
VoxtralRealtimeGeneration multimodal 0.16.0 - 0.16.0 0.16.0
VoxtralStreamingGeneration multimodal 0.14.0 0.15.1 0.14.0 0.14.0
VoyageQwen3BidirectionalEmbedModel pooling 0.16.0 - - 0.31.0
WhisperForConditionalGeneration multimodal 0.7.0 - - 0.18.0
XLMRobertaForSequenceClassification pooling 0.6.5 - - 0.31.0
XLMRobertaForTokenClassification pooling 0.26.0 - - -
XLMRobertaModel pooling 0.6.4 - - 0.32.0
XverseForCausalLM text 0.4.0 0.23.0 0.6.3 0.4.0
YiForCausalLM text 0.0 0.3.0 - -
Zamba2ForCausalLM text 0.8.0 - - -
"""


@cache
def registry() -> dict[str, tuple[Entry, ...]]:
    """By architecture: the rows of releases that have it, the oldest first."""
    found: dict[str, tuple[Entry, ...]] = {}
    for line in _REGISTRY.split("\n"):
        if line:
            name, kind, since, *others = line.split(" ")
            last, pipelines, lora = (None if value == "-" else value for value in others)
            found[name] = (*found.get(name, ()), Entry(kind, since, last, pipelines, lora))
    return found


def converted_from(name: str) -> tuple[str, str] | None:
    """The text model that releases make into the architecture of that name, and the first release that does; None if there is none."""
    for end, since in CONVERTED.items():
        if name.endswith(end):
            stem = name.removesuffix(end)
            return next(((stem + one, since) for one in GENERATING if stem + one in registry()), None)
    return None
